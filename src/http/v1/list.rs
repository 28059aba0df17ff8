//! `GET /v1/jobs`: newest first, page by page. The cursor is a place in the order of acceptance, which outlives the jobs around it.

use super::job_view::JobView;
use crate::domain::job::JobStatus;
use crate::domain::nearest::hint;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::{Query, digits};
use crate::http::quoted::quoted;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::ports::JobQuery;
use hyper::StatusCode;
use serde::Serialize;
use std::sync::Arc;

const STATES: [JobStatus; 5] =
    [JobStatus::Queued, JobStatus::Running, JobStatus::Succeeded, JobStatus::Failed, JobStatus::Cancelled];

#[derive(Serialize)]
struct List {
    object: &'static str,
    data: Vec<JobView>,
    has_more: bool,
    next_cursor: Option<String>,
}

/// A page of this user's jobs.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["status", "limit", "cursor"])?;
    let limit = query.whole("limit", 1..=limits.page_max as u64)?;
    let wanted = JobQuery {
        user: call.user,
        status: query.text("status").map(status).transpose()?,
        before: query.text("cursor").map(cursor).transpose()?,
        limit: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(limits.page),
    };
    let page = door.read(move |store| store.jobs(&wanted)).await?;
    let next_cursor = page.next.map(|place| place.to_string());
    let has_more = next_cursor.is_some();
    let data = page.jobs.into_iter().map(JobView::brief).collect();
    Ok(reply::json(StatusCode::OK, &List { object: "list", data, has_more, next_cursor }))
}

fn status(text: &str) -> Result<JobStatus, Error> {
    let words = || STATES.iter().map(|state| state.as_str());
    STATES.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
        let known = words().collect::<Vec<_>>().join(", ");
        Error::value(
            "status",
            format!("'status' must be one of {known}, not {}{}", quoted(text), hint(text, words())),
        )
    })
}

fn cursor(text: &str) -> Result<u64, Error> {
    digits(text).ok_or_else(|| {
        Error::value("cursor", format!("'cursor' must be the next_cursor of a page, not {}", quoted(text)))
    })
}
