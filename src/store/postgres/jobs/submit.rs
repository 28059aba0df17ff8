//! Accepts new jobs.

use crate::domain::job::{Job, JobSpec};
use crate::ports::{NewJob, StoreError, SubmitError};
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::weight::work_by_user;

impl Act<'_> {
    /// Stores all of these jobs, or none.
    pub(crate) async fn submit_jobs(&mut self, jobs: &[NewJob]) -> Result<Vec<Job>, SubmitError> {
        self.check_submission(jobs).await?;
        let mut accepted = Vec::with_capacity(jobs.len());
        for job in jobs {
            accepted.push(self.accept(job).await?);
        }
        Ok(accepted)
    }

    /// Refuses jobs with a missing conversation, and jobs over a limit.
    pub(crate) async fn check_submission(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        if self.is_conversation_missing(jobs).await? {
            return Err(SubmitError::NoConversation);
        }
        self.refuse_second_answers(jobs).await?;
        self.check_predecessors(jobs).await?;
        let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
        self.check_queue_limit(count, |limit| SubmitError::QueueFull { limit }).await?;
        if !self.has_room_for_conversations(jobs).await? {
            return Err(SubmitError::ConversationsFull { limit: self.limits.conversations });
        }
        self.admit_jobs(jobs).await
    }

    /// Refuses jobs beyond the quotas of their users.
    async fn admit_jobs(&mut self, jobs: &[NewJob]) -> Result<(), SubmitError> {
        if !self.limits.has_quotas {
            return Ok(());
        }
        for (user, new) in work_by_user(jobs) {
            self.admit_work::<SubmitError>(user, new).await?;
        }
        Ok(())
    }

    /// Refuses new work while the disk of the shared directory is nearly full.
    pub(crate) fn refuse_low_disk(&self) -> Result<(), StoreError> {
        self.shared.low_disk(0).map_or(Ok(()), Err)
    }

    /// Refuses more unfinished jobs than the store may hold, over all nodes.
    pub(crate) async fn check_queue_limit<E: From<StoreError>>(
        &mut self,
        jobs: u64,
        full: impl FnOnce(u64) -> E,
    ) -> Result<(), E> {
        self.refuse_low_disk()?;
        let (limit, of_group) = (self.limits.queue_jobs, self.effects.unfinished);
        let more = of_group.saturating_add(sql_number(jobs));
        let now_ms = self.shared.clock.monotonic_ms();
        if self.shared.unfinished.has_room(more, limit, now_ms) {
            return Ok(());
        }
        let sql = "SELECT coalesce(sum(jobs + lines), 0)::bigint FROM quota_counts";
        self.insert_jobs().await?;
        let counted = self.session.one(sql, &[]).await?.number(0)?;
        self.shared.unfinished.set(sql_number(counted).saturating_sub(of_group), now_ms);
        if counted.saturating_add(jobs) > limit { Err(full(limit)) } else { Ok(()) }
    }

    /// Stores a new job and queues it.
    pub(crate) async fn accept(&mut self, new: &NewJob) -> Result<Job, StoreError> {
        let job = Job::queued(new.id, new.user, new.created_at_ms, &new.spec);
        self.accept_job(job, &new.spec).await
    }

    /// The same, for a job with more fields set, such as its batch line.
    pub(crate) async fn accept_job(&mut self, job: Job, spec: &JobSpec) -> Result<Job, StoreError> {
        let message_pair = MessagePair::of(&job);
        self.accept_as(job, spec, &message_pair).await
    }

    /// The same, with this message pair.
    pub(crate) async fn accept_as(
        &mut self,
        job: Job,
        spec: &JobSpec,
        message_pair: &MessagePair,
    ) -> Result<Job, StoreError> {
        self.lock_conversation(job.user, job.conversation_id.as_ref()).await?;
        let (id, user) = (job.id, job.user);
        let mut row = JobRow::accepted(job, 0, &self.limits);
        row.job.last_event_id = 1;
        self.apply_conditions(&mut row).await?;
        self.place_job(&mut row, spec).await?;
        self.keep_images(user, id.into(), &spec.input).await?;
        self.note_answers(id, spec).await?;
        self.enter_conversation(&row, spec, message_pair).await?;
        self.effects.unfinished = self.effects.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        self.effects.announcement.queue.has_ready_job |=
            matches!(row.queue_place, QueuePlace::Ready | QueuePlace::Delayed);
        self.effects.announcement.queue.has_delayed_job |= row.queue_place == QueuePlace::Delayed;
        self.effects.announcement.queue.has_job_end |= row.ends_at_ms().is_some();
        self.announce_event(id, 1);
        self.shown(row).await
    }
}
