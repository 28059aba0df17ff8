//! Stores new jobs: row, request, place in the queue and first event in one statement.

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::UserId;
use crate::domain::job::{Job, JobSpec};
use crate::ports::{NewJob, NewWork, StoreError, SubmitError};
use crate::store::postgres::jobs::row::{place_name, place_named};
use crate::store::postgres::session::{Columns, Params, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::conversation::MessagePair;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::weight::spec_bytes;
use std::collections::BTreeMap;

/// The newest fair time that each priority has served, by number.
const SERVED: &str = "CASE $6::smallint WHEN 0 THEN (SELECT last_value FROM served_0) WHEN 1 THEN (SELECT last_value FROM served_1) \
    WHEN 2 THEN (SELECT last_value FROM served_2) WHEN 3 THEN (SELECT last_value FROM served_3) \
    WHEN 4 THEN (SELECT last_value FROM served_4) WHEN 5 THEN (SELECT last_value FROM served_5) \
    WHEN 6 THEN (SELECT last_value FROM served_6) WHEN 7 THEN (SELECT last_value FROM served_7) \
    WHEN 8 THEN (SELECT last_value FROM served_8) ELSE (SELECT last_value FROM served_9) END";

/// Bytes that the row of a job counts for its owner, however it grows.
pub(crate) const ROW_BYTES: i64 = 1_024;

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
        let mut work: BTreeMap<UserId, NewWork> = BTreeMap::new();
        for job in jobs {
            let new = work.entry(job.user).or_insert(NewWork { jobs: 0, bytes: 0 });
            let bytes = u64::try_from(spec_bytes(&job.spec)).unwrap_or(u64::MAX);
            *new = NewWork { jobs: new.jobs.saturating_add(1), bytes: new.bytes.saturating_add(bytes) };
        }
        for (user, new) in work {
            self.admit_work::<SubmitError>(user, new).await?;
        }
        Ok(())
    }

    /// Refuses more unfinished jobs than the store may hold, over all nodes.
    pub(crate) async fn check_queue_limit<E: From<StoreError>>(
        &mut self,
        jobs: u64,
        full: impl FnOnce(u64) -> E,
    ) -> Result<(), E> {
        let (limit, of_group) = (self.limits.queue_jobs, self.effects.unfinished);
        let more = of_group.saturating_add(sql_number(jobs));
        let now_ms = self.shared.clock.monotonic_ms();
        if self.shared.unfinished.has_room(more, limit, now_ms) {
            return Ok(());
        }
        let sql = "SELECT ((SELECT count(*) FROM jobs WHERE status IN ('queued', 'running', 'waiting')) \
                   + coalesce((SELECT sum(total - next_line) FROM batches WHERE status = 'in_progress' AND finished_at_ms IS NULL), 0))::bigint";
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
        let mut row = JobRow::new(job, 0);
        row.job.last_event_id = 1;
        self.insert_job(&mut row, spec).await?;
        self.keep_images(user, id.into(), &spec.input).await?;
        self.note_answers(id, spec).await?;
        self.enter_conversation(&row, spec, message_pair).await?;
        self.effects.unfinished = self.effects.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        self.effects.announcement.queue.has_ready_job |=
            matches!(row.queue_place, QueuePlace::Ready | QueuePlace::Delayed);
        self.effects.announcement.queue.has_delayed_job |= row.queue_place == QueuePlace::Delayed;
        self.announce_event(id, 1);
        self.shown(row).await
    }

    /// Inserts row and first event. The database numbers the job and finds its place.
    async fn insert_job(&mut self, row: &mut JobRow, spec: &JobSpec) -> Result<(), StoreError> {
        let is_delayed = row.due_ms().is_some_and(|due_ms| due_ms > self.now_ms);
        let place = if is_delayed { QueuePlace::Delayed } else { QueuePlace::Ready };
        let event = Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None };
        let (row_text, spec_text, event_text) = (document(row)?, document(spec)?, document(&event)?);
        let sql = format!(
            "WITH placed AS (SELECT CASE WHEN $5::text IS NOT NULL AND NOT $7::boolean AND EXISTS (SELECT FROM jobs \
                 WHERE user_id = $3 AND conversation = $5 AND NOT is_background \
                 AND status IN ('queued', 'running', 'waiting')) THEN 'behind' ELSE $4::text END AS place), \
             job AS (INSERT INTO jobs (id, accept, user_id, status, place, priority, fair, ready_since_ms, due_ms, \
                 conversation, is_background, is_completion, batch, line, parent, model, created_at_ms, row, spec) \
               SELECT $1, nextval('accept_numbers'), $3, 'queued', place, $6, \
                 CASE place WHEN 'ready' THEN 1 + greatest({SERVED}, coalesce((SELECT max(fair) FROM jobs \
                   WHERE place = 'ready' AND user_id = $3 AND priority = $6), 0)) END, \
                 CASE place WHEN 'ready' THEN $2::bigint END, $8, $5, $7, $9, $10, $11, $12, $13, $14, $15::text::json, \
                 $16::text::json FROM placed RETURNING accept, place, fair), \
             event AS (INSERT INTO records (job, seq, sub, body) SELECT $1, 1, 0, $17::text::json FROM job) \
             SELECT accept, place, fair FROM job"
        );
        let job = &row.job;
        let params: Params<'_> = &[
            &job.id.to_string(),
            &sql_number(self.now_ms),
            &sql_user(job.user),
            &place_name(place),
            &job.conversation_id.as_ref().map(ToString::to_string),
            &i16::from(job.priority.level()),
            &job.origin.parent().is_some(),
            &row.due_ms().map(sql_number),
            &spec.is_stored_completion,
            &job.batch.map(|line| line.batch.to_string()),
            &job.batch.map(|line| i32::try_from(line.line).unwrap_or(i32::MAX)),
            &job.origin.parent().map(|parent| parent.to_string()),
            &job.model,
            &sql_number(job.created_at_ms),
            &row_text,
            &spec_text,
            &event_text,
        ];
        if job.conversation_id.is_none() {
            // Nobody asks for the numbers that the database gives it before a claim reads them.
            self.session.send(&sql, params).await?;
            row.queue_place = place;
        } else {
            let found = self.session.one(&sql, params).await?;
            row.accept = found.number(0)?;
            row.queue_place = place_named(found.column(1)?)?;
            row.fair = found.optional_number(2)?;
        }
        let bytes = sql_number(spec_text.len().saturating_add(event_text.len()));
        self.count_bytes(row.job.user, bytes.saturating_add(ROW_BYTES));
        Ok(())
    }
}
