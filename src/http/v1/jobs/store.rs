//! From a job in the making to a stored one. Owns what an idempotency key changes about that, and the headers that name the
//! job; refuses to know how it is answered.

use crate::domain::id::JobId;
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::Job;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::{self, HttpResponse, IDEMPOTENCY_REPLAYED, X_JOB_ID};
use crate::ports::{Idempotent, NewJob};
use hyper::header::LOCATION;
use std::sync::Arc;

/// The stored job, and whether it had been stored before under the same key.
pub(crate) async fn store(
    context: &Arc<ServerContext>,
    job: NewJob,
    key: Option<IdempotencyKey>,
) -> Result<(Job, bool), ApiError> {
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

/// Names the job beside the body.
pub(crate) fn name(reply: &mut HttpResponse, id: JobId, is_replayed: bool) {
    if is_replayed {
        response::set(reply, IDEMPOTENCY_REPLAYED, "true");
    }
    response::set(reply, LOCATION, &format!("/v1/jobs/{id}"));
    response::set(reply, X_JOB_ID, &id.to_string());
}
