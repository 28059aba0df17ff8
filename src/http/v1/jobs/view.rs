//! Reads a job as clients see it.

use crate::domain::id::{JobId, UserId};
use crate::domain::job::Job;
use crate::domain::job_object::JobObject;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::ports::{Store, StoreError};
use std::sync::Arc;

/// The job with its output and newest event. Reads the store.
pub(crate) fn read(store: &dyn Store, mut job: Job) -> Result<JobObject, StoreError> {
    if job.status.is_terminal() {
        let output = store.output(job.id)?;
        return Ok(JobObject::with_output(job, output));
    }
    job.last_event_id = store.events(job.id, job.last_event_id, 1)?.last_seq.max(job.last_event_id);
    Ok(JobObject::with_output(job, None))
}

/// The current state of the job, if it belongs to the user.
pub(crate) async fn look(
    context: &Arc<ServerContext>,
    user: UserId,
    id: JobId,
) -> Result<JobObject, ApiError> {
    let found = context.read(user, move |store| find(store, user, id));
    found.await?.ok_or(ApiError::NotFound("job"))
}

/// The same. Reads the store.
pub(crate) fn find(store: &dyn Store, user: UserId, id: JobId) -> Result<Option<JobObject>, StoreError> {
    store.job(user, id)?.map(|job| read(store, job)).transpose()
}
