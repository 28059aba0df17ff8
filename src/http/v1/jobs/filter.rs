//! The query of `GET /v1/jobs`.

use crate::domain::id::{BatchId, ConversationId, JobId, ScheduleId};
use crate::domain::job::JobStatus;
use crate::domain::job_filter::JobFilter;
use crate::domain::nearest::hint;
use crate::http::error::ApiError;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::request::values::UnixMillis;
use serde::Deserialize;
use serde_json::Value;
use std::str::FromStr;

/// `?status=`.
pub(super) fn status(query: &QueryString) -> Result<Option<JobStatus>, ApiError> {
    let Some(text) = query.text("status") else { return Ok(None) };
    let words = || JobStatus::ALL.into_iter().map(JobStatus::as_str);
    let found = JobStatus::ALL.into_iter().find(|state| state.as_str() == text);
    found.map(Some).ok_or_else(|| {
        let known = words().collect::<Vec<_>>().join(", ");
        ApiError::value(
            "status",
            format!("'status' must be one of {known}, not {}{}", quoted(text), hint(text, words())),
        )
    })
}

/// The other conditions. Names of another user's things match nothing.
pub(super) fn filter(query: &QueryString) -> Result<JobFilter, ApiError> {
    let refused = |name: &str, rule: &str, text: &str| {
        ApiError::value(name, format!("'{name}' {rule}, not {}", quoted(text)))
    };
    let read = |name: &'static str| query.text(name).map(|text| (name, text));
    let time = |name| read(name).map(|(name, text)| moment(name, text)).transpose();
    let conversation = read("conversation_id").map(|(name, text)| {
        ConversationId::try_from(text.to_owned()).map_err(|rule| refused(name, &rule, text))
    });
    let label = read("metadata").map(|(name, text)| {
        let rule = "must be a key and its value, as in metadata=team=blue";
        if text.contains('=') { Ok(text.to_owned()) } else { Err(refused(name, rule, text)) }
    });
    Ok(JobFilter {
        parent: id::<JobId>(query, "parent", "a job's")?,
        batch: id::<BatchId>(query, "batch_id", "a batch's")?,
        schedule: id::<ScheduleId>(query, "schedule_id", "a schedule's")?,
        conversation: conversation.transpose()?,
        model: query.text("model").map(str::to_owned),
        label: label.transpose()?,
        created_from_ms: time("created_from")?,
        created_before_ms: time("created_before")?,
    })
}

/// The id in this parameter; `whose` says of what.
fn id<T: FromStr>(query: &QueryString, name: &str, whose: &str) -> Result<Option<T>, ApiError> {
    let Some(text) = query.text(name) else { return Ok(None) };
    text.parse()
        .map(Some)
        .map_err(|_| ApiError::value(name, format!("'{name}' must be {whose} id, not {}", quoted(text))))
}

fn moment(name: &str, text: &str) -> Result<u64, ApiError> {
    let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Value::Number);
    let value = number.unwrap_or_else(|| Value::from(text));
    UnixMillis::deserialize(&value)
        .map(|at| at.0)
        .map_err(|error| ApiError::value(name, format!("'{name}' {error}")))
}
