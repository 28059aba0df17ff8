//! `GET /v1/jobs/{id}/events` (DESIGN §4): the log after a cursor, as server-sent events or JSON lines.

use super::job_view;
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::http::cursor::cursor;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::frame::{Text, Wire};
use crate::http::query::Query;
use crate::http::quoted::quoted;
use crate::http::reply::{self, Reply, X_JOB_ID};
use crate::http::router::Call;
use crate::http::stream::{self, Asked, PulledBody};
use hyper::header::ACCEPT;
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;

const SSE: &str = "text/event-stream";
const NDJSON: &str = "application/x-ndjson";

/// The stream, or 204 when an ended job has nothing after the cursor: an `EventSource` then stops coming back.
pub(crate) async fn events(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    let query = Query::parse(call.query.as_deref(), &["after", "starting_after", "format", "follow"])?;
    let asked = Asked {
        job: id,
        after: cursor(&call.headers, &query)?,
        wire: wire(&call.headers),
        text: text(&query)?,
        follow: query.flag("follow")?.unwrap_or(true),
    };
    owned(door, call, id).await?;
    let opened = stream::open(door, asked).await?;
    // The row is read after the page: were it read before, a job ending in between could look endless.
    if opened.is_empty() && is_over(&owned(door, call, id).await?, asked.after) {
        return Ok(reply::empty(StatusCode::NO_CONTENT));
    }
    Ok(answer(id, asked.wire, opened.into_body(None)))
}

/// The answer that carries a stream.
pub(crate) fn answer(id: JobId, wire: Wire, body: PulledBody) -> Reply {
    let content_type = match wire {
        Wire::Sse => SSE,
        Wire::Ndjson => NDJSON,
    };
    let mut reply = reply::events(content_type, body);
    reply::set(&mut reply, X_JOB_ID, &id.to_string());
    reply
}

/// How the client wants its lines: server-sent events, unless it names JSON lines first.
pub(crate) fn wire(headers: &HeaderMap) -> Wire {
    match (accepted(headers, NDJSON), accepted(headers, SSE)) {
        (Some(ndjson), sse) if sse.is_none_or(|sse| ndjson < sse) => Wire::Ndjson,
        _ => Wire::Sse,
    }
}

/// Whether the client names server-sent events.
pub(crate) fn wants_sse(headers: &HeaderMap) -> bool {
    accepted(headers, SSE).is_some()
}

/// `?format=`.
pub(crate) fn text(query: &Query) -> Result<Text, Error> {
    match query.text("format") {
        None | Some("cumulative") => Ok(Text::Cumulative),
        Some("delta") => Ok(Text::Delta),
        Some(other) => Err(Error::value(
            "format",
            format!("'format' must be cumulative or delta, not {}", quoted(other)),
        )),
    }
}

/// The place of a media type among those that `Accept` names.
fn accepted(headers: &HeaderMap, wanted: &str) -> Option<usize> {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).position(|part| {
        let mut pieces = part.split(';').map(str::trim);
        let named = pieces.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        named && !pieces.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

async fn owned(door: &Arc<Door>, call: &Call, id: JobId) -> Result<Job, Error> {
    let user = call.user;
    door.read(move |store| store.job(user, id)).await?.ok_or(Error::NotFound("job"))
}

fn is_over(job: &Job, cursor: u64) -> bool {
    job.status.is_terminal() && job.last_event_id == cursor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accept_is_read_by_order_and_zero_weight() {
        let read = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, accept.parse().expect("a header value"));
            wire(&headers)
        };
        assert_eq!(read("*/*"), Wire::Sse);
        assert_eq!(read("application/X-NDJSON; q=0.9, */*"), Wire::Ndjson);
        assert_eq!(read("text/event-stream, application/x-ndjson"), Wire::Sse);
        assert_eq!(read("application/x-ndjson;q=0, */*"), Wire::Sse);
    }
}
