//! `POST /v1/jobs/{id}/approve` and `…/deny`: the decision about tool calls that wait for approval.

use crate::domain::approval::ApprovalDecision;
use crate::domain::job_object::JobObject;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::BoundedText;
use crate::http::response::{self, HandlerResult};
use crate::ports::{DecidedJob, JobChangeError};
use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The largest body, bytes, and the most values in it.
const BODY_BOUNDS: (usize, usize) = (64 * 1024, 2_048);

/// The body of `…/approve`. No calls: all that wait, if the job asks for the first time. Nobody can know
/// which calls the user of a later request has seen, so that one names them.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApproveRequest {
    calls: Option<Vec<String>>,
    /// Later calls of the same tools in this job need no approval.
    always: Option<bool>,
}

/// The body of `…/deny`. The model gets the reason as the result of the calls.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DenyRequest {
    calls: Option<Vec<String>>,
    reason: Option<BoundedText<0, 2_000>>,
}

/// The job, and the calls that the decision is about.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DecidedJob"))]
#[derive(Serialize)]
pub(crate) struct DecidedJobResponse {
    #[serde(flatten)]
    job: JobObject,
    /// Ids of the calls that are approved or denied by this request, or were by an equal one before.
    decided_calls: Vec<String>,
}

pub(crate) async fn approve(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: ApproveRequest = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    decide(context, &request, body.decision()?).await
}

pub(crate) async fn deny(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: DenyRequest = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    decide(context, &request, body.decision()?).await
}

async fn decide(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    decision: ApprovalDecision,
) -> HandlerResult {
    let id = request.id("job")?;
    let DecidedJob { job, calls } = match context.app.store.decide(request.user, id, decision).await {
        Err(JobChangeError::WrongState { status }) => return Err(ApiError::NotWaiting(status)),
        found => found?.ok_or(ApiError::NotFound("job"))?,
    };
    Ok(response::json(
        StatusCode::OK,
        &DecidedJobResponse { job: JobObject::fresh(job), decided_calls: calls },
    ))
}

impl ApproveRequest {
    fn decision(self) -> Result<ApprovalDecision, ApiError> {
        let is_lasting = self.always.unwrap_or(false);
        Ok(ApprovalDecision { approve: true, id_refs: calls(self.calls)?, reason: None, is_lasting })
    }
}

impl DenyRequest {
    fn decision(self) -> Result<ApprovalDecision, ApiError> {
        let reason = self.reason.map(|reason| reason.0).filter(|reason| !reason.trim().is_empty());
        Ok(ApprovalDecision { approve: false, id_refs: calls(self.calls)?, reason, is_lasting: false })
    }
}

fn calls(id_refs: Option<Vec<String>>) -> Result<Option<Vec<String>>, ApiError> {
    if id_refs.as_ref().is_some_and(Vec::is_empty) {
        return Err(ApiError::value("calls", "'calls' must be a list of ids of calls, at least one"));
    }
    Ok(id_refs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str, approve: bool) -> Result<ApprovalDecision, ApiError> {
        if approve {
            return json::parse::<ApproveRequest>(body.as_bytes(), BODY_BOUNDS.1)?.decision();
        }
        json::parse::<DenyRequest>(body.as_bytes(), BODY_BOUNDS.1)?.decision()
    }

    #[test]
    fn an_empty_body_decides_all_calls() {
        for body in ["", " \n", "{}", r#"{"calls":null}"#] {
            let all = ApprovalDecision { approve: true, id_refs: None, reason: None, is_lasting: false };
            assert_eq!(told(body, true).unwrap(), all, "{body}");
        }
        assert!(told(r#"{"always":true}"#, true).unwrap().is_lasting);
        let denial = told(r#"{"calls":["a","b"],"reason":"no"}"#, false).unwrap();
        let id_refs = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            denial,
            ApprovalDecision { approve: false, id_refs, reason: Some("no".to_owned()), is_lasting: false }
        );
    }

    #[test]
    fn invalid_decisions_are_refused() {
        let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(2_001));
        let bodies =
            ["[]", "{", r#"{"calls":[]}"#, r#"{"calls":"a"}"#, r#"{"calls":[1]}"#, r#"{"call":[]}"#, &long];
        for body in bodies {
            assert!(told(body, false).is_err(), "{body}");
        }
        assert!(told(r#"{"reason":"an approval has none"}"#, true).is_err());
        assert!(told(r#"{"always":true}"#, false).is_err(), "a denial is for its calls only");
    }
}
