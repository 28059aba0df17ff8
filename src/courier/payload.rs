//! What a delivery says: the object that a client reads at the subject's address. Owns the choice by the kind of subject;
//! refuses to report what has not ended.

use crate::domain::id::{JobId, UserId};
use crate::domain::job_object::JobObject;
use crate::domain::webhook::Subject;
use crate::ports::{Payload, Payloads, Store, StoreError};
use serde::Serialize;
use std::sync::Arc;

/// Payloads out of the store.
pub struct StorePayloads(pub Arc<dyn Store>);

impl Payloads for StorePayloads {
    fn payload(&self, user: UserId, subject: Subject) -> Result<Payload, StoreError> {
        match subject {
            Subject::Job(id) => self.job(user, id),
            Subject::Batch(_) => Ok(Payload::Nothing("this version reports no batches")),
        }
    }
}

impl StorePayloads {
    fn job(&self, user: UserId, id: JobId) -> Result<Payload, StoreError> {
        match self.0.job(user, id)? {
            None => Ok(Payload::Nothing("the job is not there any more")),
            // Its next end has a delivery of its own.
            Some(job) if !job.status.is_terminal() => Ok(Payload::Nothing("the job was started again")),
            Some(job) => body(&JobObject::whole(job, self.0.output(id)?)),
        }
    }
}

fn body(object: &impl Serialize) -> Result<Payload, StoreError> {
    serde_json::to_vec(object).map(Payload::Body).map_err(|error| StoreError::Corrupt(error.to_string()))
}
