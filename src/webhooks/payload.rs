//! Webhook bodies: the object that a client reads at the subject's address. What came in by `OpenAI`'s API is
//! reported as its events, which name the object alone.

use crate::domain::batch_object::BatchObject;
use crate::domain::event::{Event, FinishReason};
use crate::domain::id::{BatchId, JobId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_object::JobObject;
use crate::domain::response_request::response_id;
use crate::domain::webhook::{Delivery, WebhookSubject};
use crate::domain::webhook_event::{WebhookEvent, batch_event, response_event};
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
    fn payload(&self, delivery: &Delivery) -> Result<Payload, StoreError> {
        match delivery.subject {
            WebhookSubject::Job(id) => self.job(delivery, id),
            WebhookSubject::Batch(id) => self.batch(delivery, id),
        }
    }
}

impl StorePayloads {
    fn job(&self, delivery: &Delivery, id: JobId) -> Result<Payload, StoreError> {
        let Some(job) = self.jobs.job(delivery.user, id)? else {
            return Ok(Payload::Nothing("the job is not there any more"));
        };
        // Its next end has a delivery of its own.
        if !job.status.is_terminal() {
            return Ok(Payload::Nothing("the job was started again"));
        }
        let is_response = self.jobs.request(delivery.user, id)?.is_some_and(|spec| spec.response.is_some());
        let reason = if is_response { self.finish_reason(&job)? } else { None };
        match response_event(job.status, reason).filter(|_| is_response) {
            Some(kind) => body(&event(delivery, kind, response_id(id))),
            None => body(&JobObject::with_output(job, self.jobs.output(id)?)),
        }
    }

    /// Why the model's answer ended.
    fn finish_reason(&self, job: &Job) -> Result<Option<FinishReason>, StoreError> {
        if job.status != JobStatus::Succeeded {
            return Ok(None);
        }
        let page = self.jobs.events(job.id, job.last_event_id.saturating_sub(1), 1)?;
        Ok(page.events.into_iter().find_map(|numbered| match numbered.event {
            Event::Done { finish_reason, .. } => Some(finish_reason),
            _ => None,
        }))
    }

    fn batch(&self, delivery: &Delivery, id: BatchId) -> Result<Payload, StoreError> {
        let Some(batch) = self.batches.batch(delivery.user, id)? else {
            return Ok(Payload::Nothing("the batch is not there any more"));
        };
        // A batch of a file was made as OpenAI's clients make theirs.
        match batch_event(batch.status).filter(|_| batch.source.is_some()) {
            Some(kind) => body(&event(delivery, kind, id.to_string())),
            None => body(&BatchObject::from(batch)),
        }
    }
}

fn event(delivery: &Delivery, kind: &'static str, subject: String) -> WebhookEvent {
    WebhookEvent::new(delivery.id, delivery.created_at_ms, kind, subject)
}

fn body(object: &impl Serialize) -> Result<Payload, StoreError> {
    serde_json::to_vec(object).map(Payload::Body).map_err(|error| StoreError::Corrupt(error.to_string()))
}
