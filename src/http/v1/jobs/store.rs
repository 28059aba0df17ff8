//! Stores a job, once for each `Idempotency-Key`, and sets the headers that name it.

use super::images;
use crate::domain::id::JobId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::{self, HttpResponse, IDEMPOTENCY_REPLAYED, X_JOB_ID};
use crate::ports::{Idempotent, NewJob};
use hyper::header::LOCATION;
use std::sync::Arc;

/// The stored job, and whether an earlier request with the same key stored it.
pub(crate) async fn store(
    context: &Arc<ServerContext>,
    mut job: NewJob,
    key: Option<IdempotencyKey>,
) -> Result<(Job, bool), ApiError> {
    // Until the job names them.
    let _pins = images::store(context, job.user, &mut job.spec.input).await?;
    let store = &context.app.store;
    let Some(key) = key else {
        let stored = store.submit(vec![job]).await?;
        return Ok((stored.into_iter().next().ok_or(ApiError::Internal)?, false));
    };
    Ok(match store.submit_once(job, key).await? {
        Idempotent::New(job) => (job, false),
        Idempotent::Replayed(job) => (job, true),
    })
}

/// The same for a job that ends when its client leaves. It is not on the disk before its end if it can begin
/// without that.
pub(crate) async fn begin(
    context: &Arc<ServerContext>,
    job: NewJob,
    key: Option<IdempotencyKey>,
) -> Result<(Job, bool), ApiError> {
    if key.is_some() {
        return store(context, job, key).await;
    }
    match context.app.store.begin_in_memory(Box::new(job)) {
        Ok(job) => Ok((job, false)),
        Err(job) => store(context, *job, None).await,
    }
}

/// Sets the headers that name the job.
pub(crate) fn name(response: &mut HttpResponse, id: JobId, is_replayed: bool) {
    if is_replayed {
        response::set(response, IDEMPOTENCY_REPLAYED, "true");
    }
    response::set(response, LOCATION, &format!("/v1/jobs/{id}"));
    response::set(response, X_JOB_ID, &id.to_string());
}
