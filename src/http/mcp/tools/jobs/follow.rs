//! `wait_job`, `job_events` and `cancel_job`.

use super::job::{JOB_ID, job_fields, job_id, job_id_schema, shown};
use crate::domain::id::JobId;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::mcp::client_request::McpClientRequest;
use crate::http::mcp::progress::reported;
use crate::http::mcp::tools::definition::object;
use crate::http::request::typed;
use crate::http::sse::event::{FrameError, StreamFormat};
use crate::http::sse::frame::{FrameRenderer, PagePart, TextMode};
use crate::http::v1::jobs::view;
use crate::http::v1::wait;
use crate::ports::{Store, StoreError};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Seconds that a call waits if it names none.
const WAIT_S: u64 = 60;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WaitArguments {
    job_id: String,
    timeout_s: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventsArguments {
    job_id: String,
    after: Option<u64>,
    limit: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArguments {
    job_id: String,
}

pub(super) fn wait_schema(limits: &Limits) -> Value {
    let timeout = json!({
        "type": "integer", "minimum": 0, "maximum": limits.wait_s, "default": default_wait_s(limits),
        "description": "Seconds",
    });
    object(&json!({JOB_ID: job_id_schema(), "timeout_s": timeout}), &[JOB_ID])
}

pub(super) fn events_schema(limits: &Limits) -> Value {
    let after =
        json!({"type": "integer", "minimum": 0, "default": 0, "description": "Id of the last known event"});
    let limit =
        json!({"type": "integer", "minimum": 1, "maximum": limits.page_max, "default": limits.page_max});
    object(&json!({JOB_ID: job_id_schema(), "after": after, "limit": limit}), &[JOB_ID])
}

pub(super) fn page_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "events": {"type": "array", "items": {"type": "object"}},
            "last_event_id": {"type": "integer", "description": "Id of the last of these events"},
            "has_more": {"type": "boolean", "description": "Whether more events exist already"},
            "status": {"type": "string", "description": "Status of the job"},
        },
        "required": ["events", "last_event_id", "has_more", "status"],
    })
}

fn default_wait_s(limits: &Limits) -> u64 {
    WAIT_S.min(limits.wait_s)
}

/// Waits for the end of the job. The progress is the time; its text counts the events.
pub(super) async fn wait(
    request: &McpClientRequest,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let WaitArguments { job_id: id, timeout_s } = typed::from_map(arguments)?;
    let (context, user, id) = (&request.context, request.caller.user, job_id(&id)?);
    let limits = &context.app.limits;
    let timeout_s = timeout_s.unwrap_or_else(|| default_wait_s(limits));
    if timeout_s > limits.wait_s {
        let most = limits.wait_s;
        let rule = format!("'timeout_s' must be a whole number from 0 to {most}, not {timeout_s}");
        return Err(ApiError::value("timeout_s", rule));
    }
    // Before the progress of the job is reported: it may be another user's.
    view::look(context, user, id).await?;
    let newest = context.app.store.watch(id);
    let report = |seconds| {
        let events = *newest.borrow();
        // The events of a quiet job do not grow, and clients wait as long as the progress does.
        (seconds, format!("{events} events after {seconds} s"))
    };
    let waiting = wait::for_job(context, user, id, timeout_s);
    reported(request.progress.as_ref(), report, waiting).await?;
    shown(request, id).await
}

/// A page of the job's events, as their stream sends them.
pub(super) async fn events(
    request: &McpClientRequest,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let EventsArguments { job_id: id, after, limit } = typed::from_map(arguments)?;
    let (context, user, id) = (&request.context, request.caller.user, job_id(&id)?);
    let most = context.app.limits.page_max;
    let limit = match limit.map(usize::try_from) {
        None => most,
        Some(Ok(limit)) if (1..=most).contains(&limit) => limit,
        Some(_) => {
            let rule = format!("'limit' must be a whole number from 1 to {most}");
            return Err(ApiError::value("limit", rule));
        }
    };
    let after = after.unwrap_or_default();
    let page = context.read(user, move |store| match store.job(user, id)? {
        None => Ok(None),
        Some(job) => event_page(store, id, (after, limit)).map(|page| Some((page, job.status))),
    });
    let (page, status) = page.await?.ok_or(ApiError::NotFound("job"))?;
    let mut fields = page;
    fields.insert("status".to_owned(), status.as_str().into());
    Ok(fields)
}

fn event_page(
    store: &dyn Store,
    id: JobId,
    (after, limit): (u64, usize),
) -> Result<Map<String, Value>, StoreError> {
    let page = store.events(id, after, limit)?;
    let last = page.events.last().map_or(after, |last| last.seq);
    let earlier = |first_seq, up_to| store.step_text(id, first_seq, up_to);
    let mut renderer = FrameRenderer::new(StreamFormat::Ndjson, TextMode::Delta).after(after);
    let parts = renderer.render(&page, &earlier).map_err(|error| match error {
        FrameError::Store(error) => error,
        other => StoreError::Corrupt(other.to_string()),
    })?;
    let mut events = Vec::new();
    for part in parts {
        // Deltas are short: no frame of this form is rendered piece by piece.
        let PagePart::Frames(lines) = part else { continue };
        let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        events.extend(lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok()));
    }
    let fields = [
        ("events", Value::Array(events)),
        ("last_event_id", last.into()),
        ("has_more", (last < page.last_seq).into()),
    ];
    Ok(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Cancels the job and returns it.
pub(super) async fn cancel(
    request: &McpClientRequest,
    arguments: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let CancelArguments { job_id: id } = typed::from_map(arguments)?;
    let (context, user, id) = (&request.context, request.caller.user, job_id(&id)?);
    let job = context.app.store.cancel(user, id).await?.ok_or(ApiError::NotFound("job"))?;
    let job = context.read(user, move |store| view::read(store, job)).await?;
    job_fields(&job)
}
