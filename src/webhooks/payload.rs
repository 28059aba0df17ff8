//! Webhook bodies: the object that a client reads at the subject's address.

use crate::domain::batch_object::BatchObject;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::job_object::JobObject;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Batches, Payload, Payloads, Store, StoreError};
use serde::Serialize;
use std::sync::Arc;

/// Renders payloads from the store.
pub struct StorePayloads {
    /// Jobs.
    pub jobs: Arc<dyn Store>,
    /// Batches.
    pub batches: Arc<dyn Batches>,
}

impl Payloads for StorePayloads {
    fn payload(&self, user: UserId, subject: WebhookSubject) -> Result<Payload, StoreError> {
        match subject {
            WebhookSubject::Job(id) => self.job(user, id),
            WebhookSubject::Batch(id) => self.batch(user, id),
        }
    }
}

impl StorePayloads {
    fn job(&self, user: UserId, id: JobId) -> Result<Payload, StoreError> {
        match self.jobs.job(user, id)? {
            None => Ok(Payload::Nothing("the job is not there any more")),
            // Its next end has a delivery of its own.
            Some(job) if !job.status.is_terminal() => Ok(Payload::Nothing("the job was started again")),
            Some(job) => body(&JobObject::with_output(job, self.jobs.output(id)?)),
        }
    }

    fn batch(&self, user: UserId, id: BatchId) -> Result<Payload, StoreError> {
        match self.batches.batch(user, id)? {
            None => Ok(Payload::Nothing("the batch is not there any more")),
            Some(batch) => body(&BatchObject::from(batch)),
        }
    }
}

fn body(object: &impl Serialize) -> Result<Payload, StoreError> {
    serde_json::to_vec(object).map(Payload::Body).map_err(|error| StoreError::Corrupt(error.to_string()))
}
