//! A job as clients see it, read out of the store. Owns what is looked up for it; its shape is the domain's.

pub(crate) use crate::domain::job_object::JobObject as JobView;

use crate::domain::id::{JobId, UserId};
use crate::domain::job::Job;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::ports::{Store, StoreError};
use std::sync::Arc;

/// The job with what the log knows beyond its row. Reads the store.
pub(crate) fn read(store: &dyn Store, mut job: Job) -> Result<JobView, StoreError> {
    if job.status.is_terminal() {
        let output = store.output(job.id)?;
        return Ok(JobView::whole(job, output));
    }
    job.last_event_id = store.events(job.id, job.last_event_id, 1)?.last_seq.max(job.last_event_id);
    Ok(JobView::whole(job, None))
}

/// The job as it stands now, if it is this user's.
pub(crate) async fn look(door: &Arc<Door>, user: UserId, id: JobId) -> Result<JobView, Error> {
    let found = door.read(move |store| match store.job(user, id)? {
        Some(job) => read(store, job).map(Some),
        None => Ok(None),
    });
    found.await?.ok_or(Error::NotFound("job"))
}

/// The job's id as a path spells it; a malformed one names no job.
pub(crate) fn parse_id(text: &str) -> Result<JobId, Error> {
    text.parse().map_err(|_| Error::NotFound("job"))
}
