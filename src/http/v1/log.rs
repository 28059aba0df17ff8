//! `/v1/log`: the key that signs what proves logs, and the checkpoints over their heads.

use crate::domain::log_chain::LogCheckpoint;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::page::{self, ListResponse};
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct LogKeyResponse {
    object: &'static str,
    algorithm: &'static str,
    /// 64 hexadecimal digits.
    public_key: String,
}

/// The heads of all jobs that ended between two times, signed.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct CheckpointObject {
    object: &'static str,
    /// From 1, without a gap.
    number: u64,
    created_at: u64,
    /// It covers jobs that ended after this time …
    after_ms: u64,
    /// … and not after this one.
    through_ms: u64,
    jobs: u64,
    /// SHA-256 of the jobs and their heads.
    digest: String,
    /// SHA-256 of the checkpoint before.
    previous: String,
    /// Ed25519, 128 hexadecimal digits.
    signature: String,
}

/// What a request for a checkpoint has made.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct NewCheckpointResponse {
    object: &'static str,
    /// `null`: no job has ended since the last one.
    checkpoint: Option<CheckpointObject>,
}

/// `GET /v1/log/key`.
pub(crate) async fn key(context: &Arc<ServerContext>, _: &RequestContext) -> HandlerResult {
    let key = context.app.log_chains.log_public_key().ok_or(ApiError::NotFound("log key"))?;
    let answer = LogKeyResponse { object: "log_key", algorithm: "ed25519", public_key: key.to_string() };
    Ok(response::json(StatusCode::OK, &answer))
}

/// `GET /v1/log/checkpoints`: oldest first.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let query = &request.query;
    let (after, limit) = (page::cursor(query)?.unwrap_or(0), page::limit(query, &context.app.limits)?);
    let chains = Arc::clone(&context.app.log_chains);
    let mut found = context
        .app
        .blocking(request.user, move || chains.checkpoints(after, limit.saturating_add(1)))
        .await??;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().map(|last| last.checkpoint.number.to_string()).filter(|_| has_more);
    let data = found.into_iter().map(|stored| CheckpointObject::of(&stored.checkpoint)).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::new(data, next)))
}

/// `POST /v1/log/checkpoints`: makes one now.
pub(crate) async fn create(context: &Arc<ServerContext>, _: &RequestContext) -> HandlerResult {
    let made = context.app.log_chains.make_checkpoint().await?;
    let checkpoint = made.as_ref().map(CheckpointObject::of);
    let answer = NewCheckpointResponse { object: "log_checkpoint.new", checkpoint };
    Ok(response::json(StatusCode::OK, &answer))
}

impl CheckpointObject {
    fn of(checkpoint: &LogCheckpoint) -> Self {
        Self {
            object: "log_checkpoint",
            number: checkpoint.number,
            created_at: checkpoint.made_at_ms / 1_000,
            after_ms: checkpoint.after_ms,
            through_ms: checkpoint.through_ms,
            jobs: checkpoint.jobs,
            digest: checkpoint.digest.to_string(),
            previous: checkpoint.previous.to_string(),
            signature: checkpoint.signature.into(),
        }
    }
}
