//! Storing new jobs: row, spec, list, queue and first event in one transaction. Refuses more than the queue may hold.

use super::act::{Act, SMALL};
use super::exchange::Exchange;
use super::keys::OwnerKey;
use super::lease::Tail;
use super::row::Row;
use super::transaction::Transaction;
use super::value;
use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::message::Message;
use crate::ports::{NewJob, StoreError};

/// All of these, or none.
pub(super) struct Submit(pub(super) Vec<NewJob>);

impl Act for Submit {
    type Out = Vec<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Vec<Job>, StoreError> {
        transaction.refuse_homeless(&self.0)?;
        transaction.make_room(u64::try_from(self.0.len()).unwrap_or(u64::MAX))?;
        transaction.make_room_for_conversations(self.0.iter().map(|job| (job.user, &job.spec)))?;
        self.0.iter().map(|job| transaction.accept(job)).collect()
    }

    fn jobs(&self) -> Vec<JobId> {
        self.0.iter().map(|job| job.id).collect()
    }

    fn weight(&self) -> usize {
        self.0.iter().map(|job| spec_bytes(&job.spec)).sum::<usize>().saturating_add(SMALL)
    }
}

impl Transaction<'_> {
    /// Refuses more unfinished jobs than the store, or the disk, may hold.
    pub(super) fn make_room(&self, jobs: u64) -> Result<(), StoreError> {
        self.refuse_low_disk()?;
        let limit = self.bounds.queue_jobs;
        if self.counters.unfinished.saturating_add(jobs) > limit {
            return Err(StoreError::QueueFull { limit });
        }
        Ok(())
    }

    /// Stores a new job and gives it its place.
    pub(super) fn accept(&mut self, new: &NewJob) -> Result<Job, StoreError> {
        self.accept_job(Job::queued(new.id, new.user, new.created_at_ms, &new.spec), &new.spec)
    }

    /// The same, for a job that is part of something.
    pub(super) fn accept_job(&mut self, job: Job, spec: &JobSpec) -> Result<Job, StoreError> {
        let exchange = Exchange::of(&job);
        self.accept_as(job, spec, &exchange)
    }

    /// The same, for a job that is this to its conversation.
    pub(super) fn accept_as(
        &mut self,
        job: Job,
        spec: &JobSpec,
        exchange: &Exchange,
    ) -> Result<Job, StoreError> {
        let (id, user) = (job.id, job.user);
        if self.tables.specs.insert(&id.to_bytes(), value::encode(spec)?.as_slice())?.is_some() {
            return Err(StoreError::Corrupt(format!("{id} was stored before")));
        }
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        self.effects.tally.accept();
        let accept = self.counters.accept;
        let mut row = Row::new(job, accept);
        self.enqueue(&mut row)?;
        self.enter_conversation(&row, spec, exchange)?;
        let key = OwnerKey { user, status: JobStatus::Queued, accept };
        self.tables.owned.insert(&key.encode(), &id.to_bytes())?;
        let mut tail = Tail::default();
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        self.tables.append_event(id, &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.put_row(&row)?;
        self.announce(id, tail.seq);
        Ok(row.job)
    }
}

/// Roughly what was asked weighs.
pub(super) fn spec_bytes(spec: &JobSpec) -> usize {
    let said = spec.input.iter().map(Message::bytes).sum::<usize>();
    said.saturating_add(spec.system_prompt.as_ref().map_or(0, String::len))
}
