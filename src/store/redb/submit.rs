//! Storing new jobs: row, spec, list, queue and first event in one transaction. Refuses more than the queue may hold.

use super::act::{Act, SMALL};
use super::keys::OwnerKey;
use super::lease::Tail;
use super::row::{Place, Row};
use super::transaction::Transaction;
use super::value;
use crate::domain::event::{Event, Phase};
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::message::Message;
use crate::domain::usage::Usage;
use crate::ports::{NewJob, StoreError};

/// All of these, or none.
pub(super) struct Submit(pub(super) Vec<NewJob>);

impl Act for Submit {
    type Out = Vec<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Vec<Job>, StoreError> {
        let limit = transaction.bounds.queue_jobs;
        let count = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        if transaction.counters.unfinished.saturating_add(count) > limit {
            return Err(StoreError::QueueFull { limit });
        }
        self.0.iter().map(|job| transaction.accept(job)).collect()
    }

    fn jobs(&self) -> Vec<JobId> {
        self.0.iter().map(|job| job.id).collect()
    }

    fn weight(&self) -> usize {
        self.0.iter().map(|job| job_bytes(&job.spec)).sum::<usize>().saturating_add(SMALL)
    }
}

impl Transaction<'_> {
    fn accept(&mut self, new: &NewJob) -> Result<Job, StoreError> {
        let id = new.id.to_bytes();
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        let accept = self.counters.accept;
        let mut row = Row { job: queued(new), accept, fair: None, place: Place::Out, resumed: None };
        self.enqueue(&mut row)?;
        if self.tables.specs.insert(&id, value::encode(&new.spec)?.as_slice())?.is_some() {
            return Err(StoreError::Corrupt(format!("{} was stored before", new.id)));
        }
        let key = OwnerKey { user: new.user, status: JobStatus::Queued, accept };
        self.tables.owned.insert(&key.encode(), &id)?;
        let mut tail = Tail::default();
        let event = Event::Status { status: Phase::Queued, attempt: 0, reason: None };
        self.tables.append_event(new.id, &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.put_row(&row)?;
        self.announce(new.id, tail.seq);
        Ok(row.job)
    }
}

fn queued(new: &NewJob) -> Job {
    Job {
        id: new.id,
        user: new.user,
        status: JobStatus::Queued,
        attempt: 0,
        crashes: 0,
        epoch: 0,
        created_at_ms: new.created_at_ms,
        started_at_ms: None,
        finished_at_ms: None,
        model: new.spec.model.clone(),
        conversation_id: new.spec.conversation_id.clone(),
        priority: new.spec.priority,
        run_at_ms: new.spec.run_at_ms,
        metadata: new.spec.metadata.clone(),
        webhook_url: new.spec.webhook_url.clone(),
        usage: Usage::default(),
        error: None,
        cancel_requested: false,
        last_event_id: 0,
    }
}

fn job_bytes(spec: &JobSpec) -> usize {
    let said = spec.input.iter().map(Message::bytes).sum::<usize>();
    said.saturating_add(spec.system_prompt.as_ref().map_or(0, String::len))
}
