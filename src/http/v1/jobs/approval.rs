//! `POST /v1/jobs/{id}/approve` and `…/deny`: the decision about tool calls that wait for approval.

use super::view;
use crate::domain::approval::ApprovalDecision;
use crate::domain::job_object::JobObject;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::{self, RequestBody};
use crate::http::request::context::RequestContext;
use crate::http::request::fields::{ObjectFields, wrong};
use crate::http::request::json;
use crate::http::request::query::QueryString;
use crate::http::response::{self, HttpResponse};
use crate::ports::JobChangeError;
use hyper::StatusCode;
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) const APPROVE: &[&str] = &["calls"];
pub(crate) const DENY: &[&str] = &["calls", "reason"];

/// The longest reason, characters.
const REASON_CHARS: usize = 2_000;
/// The largest body, bytes, and the most values in it.
const BODY_BYTES: usize = 64 * 1024;
const BODY_VALUES: usize = 2_048;

pub(crate) async fn approve(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    decide(context, request, body, true).await
}

/// The model gets the reason as the result of the calls.
pub(crate) async fn deny(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    decide(context, request, body, false).await
}

async fn decide(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
    approve: bool,
) -> Result<HttpResponse, ApiError> {
    let id = view::parse_id(request.segment("id"))?;
    QueryString::parse(request.query.as_deref(), &[])?;
    let whole = body::read_up_to(context, &request.headers, body, BODY_BYTES).await?;
    let decision = read(object(&whole.bytes)?, approve)?;
    let job = match context.app.store.decide(request.user, id, decision).await {
        Err(JobChangeError::WrongState { status }) => return Err(ApiError::NotWaiting(status)),
        found => found?.ok_or(ApiError::NotFound("job"))?,
    };
    Ok(response::json(StatusCode::OK, &JobObject::fresh(job)))
}

/// No body is an empty object: it decides about all calls.
fn object(body: &[u8]) -> Result<Map<String, Value>, ApiError> {
    match body.trim_ascii() {
        b"" => Ok(Map::new()),
        text => Ok(json::object(text, BODY_VALUES)?),
    }
}

pub(crate) fn read(map: Map<String, Value>, approve: bool) -> Result<ApprovalDecision, ApiError> {
    let mut fields = ObjectFields::new(map, if approve { APPROVE } else { DENY })?;
    let reason = if approve { None } else { fields.text("reason")? };
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(ApiError::value("reason", format!("'reason' is longer than {REASON_CHARS} characters")));
    }
    let reason = reason.filter(|reason| !reason.trim().is_empty());
    Ok(ApprovalDecision { approve, id_refs: calls(fields.take("calls"))?, reason })
}

fn calls(value: Option<Value>) -> Result<Option<Vec<String>>, ApiError> {
    const WANTED: &str = "a list of ids of calls, at least one";
    let Some(value) = value else { return Ok(None) };
    let list = value.as_array().filter(|list| !list.is_empty());
    let texts = list.and_then(|list| list.iter().map(|id| id.as_str().map(str::to_owned)).collect());
    match texts {
        Some(id_refs) => Ok(Some(id_refs)),
        None => Err(wrong("calls", WANTED, &value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(body: &str, approve: bool) -> Result<ApprovalDecision, ApiError> {
        read(object(body.as_bytes())?, approve)
    }

    #[test]
    fn an_empty_body_decides_about_all_calls() {
        for body in ["", " \n", "{}", r#"{"calls":null}"#] {
            let all = ApprovalDecision { approve: true, id_refs: None, reason: None };
            assert_eq!(told(body, true).unwrap(), all, "{body}");
        }
        let denial = told(r#"{"calls":["a","b"],"reason":"no"}"#, false).unwrap();
        let id_refs = Some(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(denial, ApprovalDecision { approve: false, id_refs, reason: Some("no".to_owned()) });
    }

    #[test]
    fn invalid_decisions_are_refused() {
        let long = format!(r#"{{"reason":"{}"}}"#, "x".repeat(REASON_CHARS + 1));
        let bodies =
            ["[]", "{", r#"{"calls":[]}"#, r#"{"calls":"a"}"#, r#"{"calls":[1]}"#, r#"{"call":[]}"#, &long];
        for body in bodies {
            assert!(told(body, false).is_err(), "{body}");
        }
        assert!(told(r#"{"reason":"an approval has none"}"#, true).is_err());
    }
}
