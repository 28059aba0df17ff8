//! `GET /v1/jobs`: newest first, page by page. The cursor is a place in the order of acceptance, which outlives the jobs around it.

use super::job_view::JobView;
use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::domain::nearest::hint;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::quoted::quoted;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use crate::http::v1::page::{self, List};
use crate::ports::JobQuery;
use hyper::StatusCode;
use std::sync::Arc;

const STATES: [JobStatus; 6] = [
    JobStatus::Queued,
    JobStatus::Running,
    JobStatus::Waiting,
    JobStatus::Succeeded,
    JobStatus::Failed,
    JobStatus::Cancelled,
];

/// A page of this user's jobs.
pub(crate) async fn list(door: &Arc<Door>, call: &Call) -> Result<Reply, Error> {
    let limits = &door.room.limits;
    let query = Query::parse(call.query.as_deref(), &["status", "parent", "limit", "cursor"])?;
    let wanted = JobQuery {
        user: call.user,
        status: query.text("status").map(status).transpose()?,
        parent: query.text("parent").map(parent).transpose()?,
        before: page::cursor(&query)?,
        limit: page::limit(&query, limits)?,
    };
    let page = door.read(move |store| store.jobs(&wanted)).await?;
    let next_cursor = page.next.map(|place| place.to_string());
    let data = page.jobs.into_iter().map(JobView::brief).collect();
    Ok(reply::json(StatusCode::OK, &List::new(data, next_cursor)))
}

/// A job that the user does not have has no children here.
fn parent(text: &str) -> Result<JobId, Error> {
    let wrong = |_| Error::value("parent", format!("'parent' must be a job's id, not {}", quoted(text)));
    text.parse().map_err(wrong)
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
