//! Stores new jobs: row, input, list entry, queue entry and first event in one transaction.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::message::Message;
use crate::ports::{NewJob, StoreError};
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
use crate::store::redb::codec::values;
use crate::store::redb::conversations::message_pair::MessagePair;
use crate::store::redb::jobs::row::JobRow;
use crate::store::redb::queue::lease::LogTail;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{BASE_WEIGHT, StoreWrite};

/// All of these, or none.
pub(crate) struct SubmitJobs(pub(crate) Vec<NewJob>);

impl StoreWrite for SubmitJobs {
    type Output = Vec<Job>;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<Vec<Job>, StoreError> {
        transaction.refuse_missing_target(&self.0)?;
        transaction.check_queue_limit(u64::try_from(self.0.len()).unwrap_or(u64::MAX))?;
        transaction.check_conversation_limit(self.0.iter().map(|job| (job.user, &job.spec)))?;
        self.0.iter().map(|job| transaction.accept(job)).collect()
    }

    fn jobs(&self) -> Vec<JobId> {
        self.0.iter().map(|job| job.id).collect()
    }

    fn weight(&self) -> usize {
        self.0.iter().map(|job| spec_bytes(&job.spec)).sum::<usize>().saturating_add(BASE_WEIGHT)
    }
}

impl Transaction<'_> {
    /// Refuses more unfinished jobs than the store, or the disk, may hold.
    pub(crate) fn check_queue_limit(&self, jobs: u64) -> Result<(), StoreError> {
        self.refuse_low_disk()?;
        let limit = self.bounds.queue_jobs;
        if self.counters.unfinished.saturating_add(jobs) > limit {
            return Err(StoreError::QueueFull { limit });
        }
        Ok(())
    }

    /// Stores a new job and gives it its place.
    pub(crate) fn accept(&mut self, new: &NewJob) -> Result<Job, StoreError> {
        self.accept_job(Job::queued(new.id, new.user, new.created_at_ms, &new.spec), &new.spec)
    }

    /// The same, for a job that is part of something.
    pub(crate) fn accept_job(&mut self, job: Job, spec: &JobSpec) -> Result<Job, StoreError> {
        let message_pair = MessagePair::of(&job);
        self.accept_as(job, spec, &message_pair)
    }

    /// The same, for a job that is this to its conversation.
    pub(crate) fn accept_as(
        &mut self,
        job: Job,
        spec: &JobSpec,
        message_pair: &MessagePair,
    ) -> Result<Job, StoreError> {
        let (id, user) = (job.id, job.user);
        if self.tables.specs.insert(&id.to_bytes(), values::encode(spec)?.as_slice())?.is_some() {
            return Err(StoreError::Corrupt(format!("{id} was stored before")));
        }
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        let accept = self.counters.accept;
        let mut row = JobRow::new(job, accept);
        self.enqueue(&mut row)?;
        self.enter_conversation(&row, spec, message_pair)?;
        let key = JobOwnerKey { user, status: JobStatus::Queued, accept };
        self.tables.owned.insert(&key.encode(), &id.to_bytes())?;
        let mut tail = LogTail::default();
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        self.tables.append_event(id, &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.put_row(&row)?;
        self.notify_event(id, tail.seq);
        Ok(row.job)
    }
}

/// Roughly what was asked weighs.
pub(crate) fn spec_bytes(spec: &JobSpec) -> usize {
    let said = spec.input.iter().map(Message::bytes).sum::<usize>();
    said.saturating_add(spec.system_prompt.as_ref().map_or(0, String::len))
}
