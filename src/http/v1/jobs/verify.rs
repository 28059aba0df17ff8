//! `GET /v1/jobs/{id}/verify`: is the log of a job as it was written.

use crate::domain::id::JobId;
use crate::domain::log_chain::{ChainFault, ChainLink, ChainVerdict, FoldKind};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum VerificationStatus {
    /// Each record is as it was written.
    Intact,
    /// A version without chains has begun the log, or the job is in memory until it ends, or a version before
    /// this one has imported it after retention had shortened it.
    NotChained,
    /// A record was changed, removed or moved.
    Faulty,
}

/// The first record that is not as it was written.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct LogFaultObject {
    code: &'static str,
    message: String,
    /// The number of the event, or of the event before the mark.
    event: Option<u64>,
    /// The number of the mark after it; 0: the record is the event.
    mark: Option<u32>,
}

/// The outcome of a verification.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct VerificationResponse {
    object: &'static str,
    job_id: JobId,
    status: VerificationStatus,
    /// The link of the newest record: of an ended job, its head.
    log_head: Option<ChainLink>,
    /// What retention has done to the log.
    folded: Option<FoldKind>,
    /// Retention has done that on the server that the job was imported from. Whether that server has signed
    /// it, only its key (`GET /v1/log/key` there) can tell.
    is_folded_elsewhere: bool,
    fault: Option<LogFaultObject>,
}

pub(crate) async fn verify(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    let (chains, user) = (Arc::clone(&context.app.log_chains), request.user);
    let verified = context.app.blocking(user, move || {
        let (log, key) = (chains.log_chain(user, id)?, chains.log_public_key());
        Ok::<_, crate::ports::StoreError>(log.map(|log| log.verify(key.as_slice())))
    });
    let verdict = verified.await??.ok_or(ApiError::NotFound("job"))?;
    Ok(response::json(StatusCode::OK, &VerificationResponse::of(id, verdict)))
}

impl VerificationResponse {
    fn of(job_id: JobId, verdict: Result<ChainVerdict, ChainFault>) -> Self {
        let is_folded_elsewhere = matches!(verdict, Ok(ChainVerdict::IntactAsImported { .. }));
        let answer = |status, log_head, folded, fault| Self {
            object: "log_verification",
            job_id,
            status,
            log_head,
            folded,
            is_folded_elsewhere,
            fault,
        };
        match verdict {
            Ok(ChainVerdict::NotChained) => answer(VerificationStatus::NotChained, None, None, None),
            Ok(ChainVerdict::Intact { head, fold }) => {
                answer(VerificationStatus::Intact, Some(head), fold, None)
            }
            Ok(ChainVerdict::IntactAsImported { head, fold }) => {
                answer(VerificationStatus::Intact, Some(head), Some(fold), None)
            }
            Err(fault) => {
                let place = fault.place();
                let fault = LogFaultObject {
                    code: fault.code(),
                    message: fault.to_string(),
                    event: place.map(|place| place.seq),
                    mark: place.map(|place| place.sub),
                };
                answer(VerificationStatus::Faulty, None, None, Some(fault))
            }
        }
    }
}
