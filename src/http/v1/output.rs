//! `GET /v1/jobs/{id}/output`: the answer alone, as plain text. A job that failed or was cancelled shows what it had
//! written, marked by `X-Job-Status`; without a word of it the answer is 409, so that `curl -f` fails.

use super::job_view;
use crate::domain::job::JobStatus;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::{self, Reply};
use crate::http::router::Call;
use hyper::StatusCode;
use hyper::header::HeaderName;
use std::sync::Arc;

/// How the job ended, for scripts that look at the headers.
const X_JOB_STATUS: HeaderName = HeaderName::from_static("x-job-status");

/// The answer's text.
pub(crate) async fn output(door: &Arc<Door>, call: &Call, id: &str) -> Result<Reply, Error> {
    let id = job_view::parse_id(id)?;
    Query::parse(call.query.as_deref(), &[])?;
    let user = call.user;
    let found = door.read(move |store| match store.job(user, id)? {
        Some(job) if job.status.is_terminal() => Ok(Some((job, store.output(id)?))),
        Some(job) => Ok(Some((job, None))),
        None => Ok(None),
    });
    let (job, text) = found.await?.ok_or(Error::NotFound("job"))?;
    if !job.status.is_terminal() {
        return Err(Error::NotFinished(job.status));
    }
    let text = text.unwrap_or_default();
    if text.is_empty() && job.status != JobStatus::Succeeded {
        let message = job.error.map(|error| error.message).unwrap_or_default();
        return Err(Error::NoOutput { status: job.status, message });
    }
    let mut reply = reply::text(StatusCode::OK, text);
    reply::set(&mut reply, X_JOB_STATUS, job.status.as_str());
    Ok(reply)
}
