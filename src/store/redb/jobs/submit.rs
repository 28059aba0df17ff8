//! Stores new jobs: row, input, list entry, queue entry and first event in one transaction.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::ports::{NewJob, StoreError, SubmitError};
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::lease::LogTail;
use crate::store::rows::weight::work_by_user;
use std::sync::Arc;

impl Transaction<'_> {
    /// Stores all of these jobs, or none.
    pub(crate) fn submit_jobs(&mut self, jobs: &[NewJob]) -> Result<Vec<Job>, SubmitError> {
        self.check_submission(jobs)?;
        Ok(jobs.iter().map(|job| self.accept(job)).collect::<Result<_, _>>()?)
    }

    /// Refuses jobs with a missing conversation, and jobs over a limit.
    pub(crate) fn check_submission(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        if self.is_conversation_missing(jobs)? {
            return Err(SubmitError::NoConversation);
        }
        self.refuse_second_answers(jobs)?;
        self.check_predecessors(jobs)?;
        let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        self.check_queue_limit(count, |limit| SubmitError::QueueFull { limit })?;
        if !self.has_room_for_conversations(jobs.iter().map(|job| (job.user, &job.spec)))? {
            return Err(SubmitError::ConversationsFull { limit: self.bounds.conversations });
        }
        self.admit_jobs(jobs)
    }

    /// Refuses jobs beyond the quotas of their users.
    fn admit_jobs(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        if !self.bounds.has_quotas {
            return Ok(());
        }
        for (user, new) in work_by_user(jobs) {
            self.admit_rows::<SubmitError>(user, new)?;
        }
        Ok(())
    }

    /// Refuses more unfinished jobs than the store, or the disk, may hold.
    pub(crate) fn check_queue_limit<E: From<StoreError>>(
        &self,
        jobs: u64,
        full: impl FnOnce(u64) -> E,
    ) -> Result<(), E> {
        self.refuse_low_disk()?;
        let limit = self.bounds.queue_jobs;
        let volatile = self.volatile.count().saturating_sub(self.effects.stored_volatile.len()) as u64;
        let unfinished = self.counters.unfinished.saturating_add(volatile);
        if unfinished.saturating_add(jobs) > limit { Err(full(limit)) } else { Ok(()) }
    }

    /// Stores a new job and queues it.
    pub(crate) fn accept(&mut self, new: &NewJob) -> Result<Job, StoreError> {
        self.accept_job(Job::queued(new.id, new.user, new.created_at_ms, &new.spec), &new.spec)
    }

    /// The same, for a job with more fields set, such as its batch line.
    pub(crate) fn accept_job(&mut self, job: Job, spec: &JobSpec) -> Result<Job, StoreError> {
        let message_pair = MessagePair::of(&job);
        self.accept_as(job, spec, &message_pair)
    }

    /// The same, with this message pair.
    pub(crate) fn accept_as(
        &mut self,
        job: Job,
        spec: &JobSpec,
        message_pair: &MessagePair,
    ) -> Result<Job, StoreError> {
        let (id, user) = (job.id, job.user);
        if self.tables.specs.put_row(&id.to_bytes(), spec)? {
            return Err(StoreError::Corrupt(format!("{id} was stored before")));
        }
        self.keep_images(user, id.into(), &spec.input)?;
        self.note_answers(id, spec)?;
        self.list_completion(user, id, spec)?;
        let accept = self.count_accepted();
        let mut row = JobRow::accepted(job, accept, &self.bounds);
        self.apply_conditions(&mut row)?;
        self.enqueue(&mut row)?;
        self.enter_conversation(&row, spec, message_pair)?;
        let key = JobOwnerKey { user, status: JobStatus::Queued, accept };
        self.tables.owned.insert(&key.encode(), &id.to_bytes())?;
        let mut tail = LogTail::start(&row);
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        self.tables.append_event(id, &mut tail, &event)?;
        row.job.last_event_id = tail.seq;
        self.put_row(&row)?;
        self.notify_event(id, tail.seq);
        if self.fresh_jobs.len() < self.claims && row.queue_place == QueuePlace::Ready {
            self.fresh_jobs.insert(id, (row.clone(), Arc::new(spec.clone()), tail));
        }
        self.shown(row)
    }

    /// Counts a new job. Returns its acceptance number.
    pub(crate) fn count_accepted(&mut self) -> u64 {
        self.counters.accept = self.counters.accept.saturating_add(1);
        self.counters.unfinished = self.counters.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        self.counters.accept
    }
}
