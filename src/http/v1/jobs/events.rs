//! `GET /v1/jobs/{id}/events` (DESIGN §4): the log after a cursor, as server-sent events or JSON lines.

use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::context::RequestContext;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::stream_body::StreamBody;
use crate::http::response::{self, HandlerResult, HttpResponse, X_JOB_ID};
use crate::http::sse::cursor::cursor;
use crate::http::sse::event::StreamFormat;
use crate::http::sse::frame::TextMode;
use crate::http::sse::stream::{self, StreamRequest};
use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

/// The stream, or 204 when an ended job has nothing after the cursor: an `EventSource` then stops
/// reconnecting.
pub(crate) async fn events(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    job_events(context, request, request.id("job")?).await
}

/// The events of this job.
pub(crate) async fn job_events(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    id: JobId,
) -> HandlerResult {
    let query = &request.query;
    let asked = StreamRequest {
        caller: request.caller,
        job: id,
        after: cursor(&request.headers, query)?,
        wire: wire(&request.headers),
        text: text(query)?,
        follow: query.flag("follow")?.unwrap_or(true),
    };
    let job = owned(context, request, id).await?;
    let opened = stream::open(context, asked).await?;
    opened.refuse_short_log(job.last_event_id)?;
    // The row is read after the page, so that a job that ends in between is seen as ended.
    if opened.is_empty() && is_over(&owned(context, request, id).await?, asked.after) {
        return Ok(response::empty(StatusCode::NO_CONTENT));
    }
    Ok(answer(id, asked.wire, opened.into_body(None)))
}

pub(crate) fn answer(id: JobId, wire: StreamFormat, body: StreamBody) -> HttpResponse {
    let content_type = match wire {
        StreamFormat::Sse => SSE,
        StreamFormat::Ndjson => NDJSON,
    };
    let mut response = response::events(content_type, body);
    response::set(&mut response, X_JOB_ID, &id.to_string());
    response
}

/// Server-sent events, unless `Accept` names JSON lines first.
pub(crate) fn wire(headers: &HeaderMap) -> StreamFormat {
    match (accepted(headers, NDJSON), accepted(headers, SSE)) {
        (Some(ndjson), sse) if sse.is_none_or(|sse| ndjson < sse) => StreamFormat::Ndjson,
        _ => StreamFormat::Sse,
    }
}

/// Whether the client names server-sent events.
pub(crate) fn wants_sse(headers: &HeaderMap) -> bool {
    accepted(headers, SSE).is_some()
}

/// `?format=`.
pub(crate) fn text(query: &QueryString) -> Result<TextMode, ApiError> {
    match query.text("format") {
        None | Some("cumulative") => Ok(TextMode::Cumulative),
        Some("delta") => Ok(TextMode::Delta),
        Some(other) => Err(ApiError::value(
            "format",
            format!("'format' must be cumulative or delta, not {}", quoted(other)),
        )),
    }
}

/// The position of a media type in `Accept`.
fn accepted(headers: &HeaderMap, wanted: &str) -> Option<usize> {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).position(|part| {
        let mut pieces = part.split(';').map(str::trim);
        let named = pieces.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        named && !pieces.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

async fn owned(context: &Arc<ServerContext>, request: &RequestContext, id: JobId) -> Result<Job, ApiError> {
    let user = request.user;
    context.read(user, move |store| store.job(user, id)).await?.ok_or(ApiError::NotFound("job"))
}

fn is_over(job: &Job, cursor: u64) -> bool {
    job.status.is_terminal() && job.last_event_id == cursor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accept_header_is_read_by_order_and_zero_weights_exclude() {
        let read = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header value"));
            wire(&headers)
        };
        assert_eq!(read("*/*"), StreamFormat::Sse);
        assert_eq!(read("application/X-NDJSON; q=0.9, */*"), StreamFormat::Ndjson);
        assert_eq!(read("text/event-stream, application/x-ndjson"), StreamFormat::Sse);
        assert_eq!(read("application/x-ndjson;q=0, */*"), StreamFormat::Sse);
    }
}
