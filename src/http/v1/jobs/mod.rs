//! `/v1/jobs`: a list of jobs, one job, its output and audit log, and its cancel, retry and delete routes. A
//! job of another user does not exist (P7).

pub(crate) mod approval;
pub(crate) mod events;
pub(crate) mod export;
mod filter;
pub(crate) mod images;
pub(crate) mod import;
pub(crate) mod on_disconnect;
pub(crate) mod spec;
pub(crate) mod store;
pub(crate) mod stream;
pub(crate) mod submit;
pub(crate) mod verify;
pub(crate) mod view;

use crate::domain::id::JobId;
use crate::domain::job::JobStatus;
use crate::domain::job_object::JobObject;
use crate::domain::workspace::Workspace;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::quota;
use crate::http::request::context::RequestContext;
use crate::http::request::query::QueryString;
use crate::http::request::quoted::quoted;
use crate::http::response::{self, HandlerResult};
use crate::http::v1::batches::result_files;
use crate::http::v1::page::{self, ListResponse};
use crate::http::v1::wait;
use crate::ports::{AuditEntry, AuditPage, JobChangeError, JobQuery, NewWork};
use hyper::StatusCode;
use hyper::header::HeaderName;
use serde::Serialize;
use std::sync::Arc;

/// `GET /v1/jobs`: newest first. The cursor is a position in the order of acceptance, so it stays valid
/// when jobs are deleted. With a filter, a page ends after a bounded number of rows, so it may be short or
/// even empty although `has_more` is true.
pub(crate) async fn list(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let limits = &context.app.limits;
    let query = &request.query;
    let wanted = JobQuery {
        user: request.user,
        status: filter::status(query)?,
        filter: filter::filter(query)?,
        before: page::cursor(query)?,
        limit: page::limit(query, limits)?,
    };
    let page = context.read(request.user, move |store| store.jobs(&wanted)).await?;
    let next_cursor = page.next.map(|place| place.to_string());
    let data = page.jobs.into_iter().map(JobObject::brief).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::new(data, next_cursor)))
}

/// `GET /v1/jobs/{id}`, at once or after `?wait=`.
pub(crate) async fn show(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    let query = &request.query;
    let wait_s = query.whole("wait", 0..=context.app.limits.wait_s)?.unwrap_or(0);
    let shows_input = includes_input(query)?;
    wait::for_job(context, request.user, id, wait_s).await?;
    let mut view = view::look(context, request.user, id).await?;
    if shows_input && let Some(input) = context.read(request.user, move |store| store.input(id)).await? {
        view = view.with_input(input);
    }
    Ok(response::json(StatusCode::OK, &view))
}

/// `?include=input`: the whole input instead of its start.
fn includes_input(query: &QueryString) -> Result<bool, ApiError> {
    match query.text("include") {
        None => Ok(false),
        Some("input") => Ok(true),
        Some(other) => {
            Err(ApiError::value("include", format!("'include' must be input, not {}", quoted(other))))
        }
    }
}

const X_JOB_STATUS: HeaderName = HeaderName::from_static("x-job-status");

/// `GET /v1/jobs/{id}/output`: the answer as plain text. A job that failed or was cancelled shows what it
/// had written, marked by `X-Job-Status`; if it wrote nothing, the response is 409, so that `curl -f`
/// fails.
pub(crate) async fn output(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    let user = request.user;
    let found = context.read(user, move |store| match store.job(user, id)? {
        Some(job) if job.status.is_terminal() => Ok(Some((job, store.output(id)?))),
        Some(job) => Ok(Some((job, None))),
        None => Ok(None),
    });
    let (job, text) = found.await?.ok_or(ApiError::NotFound("job"))?;
    if !job.status.is_terminal() {
        return Err(ApiError::NotFinished(job.status));
    }
    let text = text.unwrap_or_default();
    if text.is_empty() && job.status != JobStatus::Succeeded {
        let message = job.error.map(|error| error.message).unwrap_or_default();
        return Err(ApiError::NoOutput { status: job.status, message });
    }
    let mut response = response::text(StatusCode::OK, text);
    response::set(&mut response, X_JOB_STATUS, job.status.as_str());
    Ok(response)
}

const ENTRIES_MAX: usize = 2_000;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AuditLine"))]
#[derive(Serialize)]
pub(crate) struct AuditEntryResponse {
    object: &'static str,
    #[serde(flatten)]
    entry: AuditEntry,
}

/// `GET /v1/jobs/{id}/audit`: the newest tool calls, oldest first, as long as the audit log keeps them.
/// `has_more`: older ones are left out.
pub(crate) async fn audit(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    let (audit, user) = (Arc::clone(&context.app.audit), request.user);
    let found = context.read(user, move |store| match store.job(user, id)? {
        Some(job) => audit.of_job(user, id, job.created_at_ms, ENTRIES_MAX).map(Some),
        None => Ok(None),
    });
    let AuditPage { entries, has_more } = found.await?.ok_or(ApiError::NotFound("job"))?;
    let data = entries.into_iter().map(|entry| AuditEntryResponse { object: "audit_entry", entry }).collect();
    Ok(response::json(StatusCode::OK, &ListResponse::<AuditEntryResponse, String>::cut(data, has_more)))
}

/// `POST /v1/jobs/{id}/cancel`. Idempotent: an ended job stays as it is.
pub(crate) async fn cancel(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    let job = context.app.store.cancel(request.user, id).await?.ok_or(ApiError::NotFound("job"))?;
    let view = context.read(request.user, move |store| view::read(store, job)).await?;
    Ok(response::json(StatusCode::OK, &view))
}

/// `POST /v1/jobs/{id}/retry`: queues a failed job again, from its last recorded step. Other states are a
/// 409.
pub(crate) async fn retry(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    quota::check(context, request.user, None, NewWork::job(0)).await?;
    let job = match context.app.store.retry(request.user, id).await {
        Err(JobChangeError::WrongState { status }) => return Err(ApiError::NotFailed(status)),
        found => found?.ok_or(ApiError::NotFound("job"))?,
    };
    if let Some(line) = &job.batch {
        result_files::write_at_end(context, request.user, line.batch);
    }
    Ok(response::json(StatusCode::ACCEPTED, &JobObject::fresh(job)))
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct DeletedJobResponse {
    id: JobId,
    object: &'static str,
    deleted: bool,
}

/// `DELETE /v1/jobs/{id}`: deletes an ended job with its directory and its part of the conversation. Other
/// states are a 409.
pub(crate) async fn delete(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let id: JobId = request.id("job")?;
    match context.app.store.delete(request.user, id).await {
        Err(JobChangeError::WrongState { status }) => Err(ApiError::NotEnded(status)),
        Ok(false) => Err(ApiError::NotFound("job")),
        Ok(true) => {
            remove_files(context, Workspace::of_job(request.user, id)).await?;
            let deleted = DeletedJobResponse { id, object: "job.deleted", deleted: true };
            Ok(response::json(StatusCode::OK, &deleted))
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes the directory of a deleted job before the response, so that a client that was answered knows that
/// the files are gone. What fails here is removed later.
async fn remove_files(context: &Arc<ServerContext>, workspace: Workspace) -> Result<(), ApiError> {
    let app = Arc::clone(&context.app);
    let removed = context.app.blocking(workspace.user, move || app.workspaces.remove(&workspace)).await?;
    if let Err(error) = removed {
        tracing::warn!(%error, "the directory of a deleted job stays for now");
    }
    Ok(())
}
