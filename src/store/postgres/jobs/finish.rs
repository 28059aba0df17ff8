//! Ends jobs, for their worker or for the store itself: terminal event, row, output, conversation, queue and
//! webhook in one transaction (P4).

use crate::domain::event::{FailureCode, Record};
use crate::domain::id::JobId;
use crate::domain::job::{JobOutcome, JobStatus};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::postgres::jobs::row::{move_row, tail};
use crate::store::postgres::session::{Columns, document, sql_number};
use crate::store::postgres::writer::act::{Act, ConfirmedLease};
use crate::store::rows::job::{JobRow, QueuePlace, refuse_terminal};
use crate::store::rows::lease::{AnswerText, LeasedJob, LogTail};
use crate::store::rows::transitions::ending_without_worker;

impl Act<'_> {
    /// Ends a leased job; the last write of its lease.
    pub(crate) async fn finish_job(
        &mut self,
        fence: Fence,
        records: &[Record],
        ending: &JobOutcome,
    ) -> Result<(), LeaseError> {
        refuse_terminal(records)?;
        let mut leased = self.lease(fence)?;
        self.lock_conversation(leased.row.job.user, leased.row.job.conversation_id.as_ref()).await?;
        let mut row = self.confirm(&leased).await?;
        for record in records {
            self.append(fence.job, &mut leased.tail, record)?;
        }
        row.job.crashes = 0;
        if let Some(spent) = row.spent(records) {
            row.enter(&spent);
        }
        self.move_behind_summary(&mut row).await?;
        self.write_turn(&row, &leased.spec, ending).await?;
        self.end(&mut row, &mut leased.tail, ending).await?;
        self.drop_lease(fence.job);
        Ok(())
    }

    /// The row of a leased job as this node knows it, with what others may have changed in the database.
    /// Fails if the database has another lease.
    pub(crate) async fn confirm(&mut self, leased: &LeasedJob) -> Result<JobRow, LeaseError> {
        let job = leased.row.id();
        if !self.confirmed.contains_key(&job) {
            self.confirm_ahead(&[job]).await?;
        }
        let found = self.confirmed.remove(&job).filter(|found| found.epoch == leased.row.job.epoch);
        let found = found.ok_or(LeaseError::Fenced { job })?;
        let mut row = JobRow::clone(&leased.row);
        row.job.cancel_requested = found.is_cancelled;
        row.has_dependents = found.has_dependents;
        row.accept = found.accept;
        Ok(row)
    }

    /// Reads and locks the rows of jobs that this node leases, for [`Act::confirm`].
    pub(crate) async fn confirm_ahead(&mut self, jobs: &[JobId]) -> Result<(), StoreError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let ids: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        // All nodes lock in this order.
        let sql = "SELECT id, epoch, cancel_requested, accept, has_dependents FROM jobs WHERE id = ANY($1) \
                   AND lease_node IS NOT DISTINCT FROM $2 AND status IS NOT DISTINCT FROM 'running' ORDER BY id FOR NO KEY UPDATE";
        for found in self.session.rows(sql, &[&ids, &self.node]).await? {
            let confirmed = ConfirmedLease {
                epoch: found.number(1)?,
                is_cancelled: found.column(2)?,
                accept: found.number(3)?,
                has_dependents: found.column(4)?,
            };
            self.confirmed.insert(found.parsed(0)?, confirmed);
        }
        Ok(())
    }

    /// Writes the end of a job. No other code writes a terminal event.
    pub(crate) async fn end(
        &mut self,
        row: &mut JobRow,
        tail: &mut LogTail,
        ending: &JobOutcome,
    ) -> Result<(), StoreError> {
        if !ending.event.is_terminal() {
            return Err(StoreError::Corrupt("an ending without a terminal event".to_owned()));
        }
        self.append_event(row.id(), tail, ending.event.clone())?;
        self.book(row).await?;
        row.queue_place = QueuePlace::Out;
        self.forget_predecessors(row).await?;
        row.close(ending, tail, self.now_ms);
        move_row(row, ending.status())?;
        self.effects.metrics.end(row, &ending.event);
        self.effects.unfinished = self.effects.unfinished.saturating_sub(1);
        self.put_ended(row, &ending.output_text).await?;
        self.count_answer(row, ending).await?;
        self.announce_event(row.id(), tail.seq);
        self.admit_next(row).await?;
        if row.has_dependents {
            self.release_dependents(row.id(), row.job.status == JobStatus::Succeeded).await?;
        }
        if let Some(url) = row.job.webhook_url.clone() {
            self.report(row.job.user, WebhookSubject::Job(row.id()), &url).await?;
        }
        self.end_line(&row.job);
        Ok(())
    }

    /// Writes the row and the output of a job that has ended. That of a conversation is written at once,
    /// because the end of the conversation's next job asks for it; others wait for [`Act::write_ended`].
    async fn put_ended(&mut self, row: &JobRow, output_text: &str) -> Result<(), StoreError> {
        let output = if output_text.is_empty() { None } else { Some(document(&output_text)?) };
        self.count_bytes(row.job.user, sql_number(output.as_ref().map_or(0, String::len)));
        self.confirmed.remove(&row.id());
        self.ended.push((row.clone(), output));
        if row.job.conversation_id.is_some() { self.write_ended().await } else { Ok(()) }
    }

    /// Writes the rows of jobs that have ended in this transaction, all in one statement.
    pub(crate) async fn write_ended(&mut self) -> Result<(), StoreError> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let (rows, outputs): (Vec<_>, Vec<_>) = std::mem::take(&mut self.ended).into_iter().unzip();
        self.queue_span_exports(&rows).await?;
        let documents: Vec<String> = rows.iter().map(document).collect::<Result<_, _>>()?;
        let sql = "UPDATE jobs SET accept = u.accept, status = u.status, place = 'out', fair = u.fair, due_ms = u.due_ms, \
                   epoch = u.epoch, lease_node = NULL, cancel_requested = u.cancelled, finished_at_ms = u.finished_at_ms, \
                   row = u.row::json, ready_since_ms = NULL, ends_at_ms = NULL, output = coalesce(u.output::json, jobs.output) \
                   FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::boolean[], \
                     $8::bigint[], $9::text[], $10::text[]) \
                   AS u(id, accept, status, fair, due_ms, epoch, cancelled, finished_at_ms, row, output) WHERE jobs.id = u.id";
        let each = |number: fn(&JobRow) -> Option<u64>| -> Vec<Option<i64>> {
            rows.iter().map(|row| number(row).map(sql_number)).collect()
        };
        self.session
            .send(
                sql,
                &[
                    &rows.iter().map(|row| row.id().to_string()).collect::<Vec<_>>(),
                    &each(|row| Some(row.accept)),
                    &rows.iter().map(|row| row.job.status.as_str()).collect::<Vec<_>>(),
                    &each(|row| row.fair),
                    &each(JobRow::due_ms),
                    &each(|row| Some(row.job.epoch)),
                    &rows.iter().map(|row| row.job.cancel_requested).collect::<Vec<_>>(),
                    &each(|row| row.job.finished_at_ms),
                    &documents,
                    &outputs,
                ],
            )
            .await
    }

    /// Ends a job without a lease. Its usage and its output stay. If it had run, the question stays in the
    /// conversation.
    pub(crate) async fn end_unleased(
        &mut self,
        row: &mut JobRow,
        code: FailureCode,
        content: &str,
    ) -> Result<(), StoreError> {
        self.flush().await?;
        // Nobody has asked the database.
        row.has_dependents = true;
        let mut tail = tail(&self.session, row.id()).await?;
        let output_text = match self.answer_text(row).await {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(job = %row.id(), reason, "output of the job cannot be read");
                String::new()
            }
            answer_text => answer_text?,
        };
        let ending = ending_without_worker(code, content, output_text);
        self.lock_conversation(row.job.user, row.job.conversation_id.as_ref()).await?;
        if row.job.started_at_ms.is_some() {
            row.queue_place = QueuePlace::Out;
            self.move_behind_summary(row).await?;
            match self.spec(row.id()).await {
                Ok(spec) => self.write_turn(row, &spec, &ending).await?,
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(job = %row.id(), reason, "input of the job cannot be read; the conversation loses the question");
                }
                Err(error) => return Err(error),
            }
        }
        self.end(row, &mut tail, &ending).await
    }

    /// The text of the newest model call of a job that produced any.
    async fn answer_text(&self, row: &JobRow) -> Result<String, StoreError> {
        let sql = "SELECT body::text FROM records WHERE job = $1 AND sub = 0 ORDER BY seq";
        let mut answer = AnswerText::default();
        for found in self.session.rows(sql, &[&row.id().to_string()]).await? {
            answer.add(&found.document(0)?);
        }
        Ok(answer.text)
    }

    /// Takes the row of a leased job out of its lease, confirmed.
    pub(crate) async fn take_lease(&mut self, fence: Fence) -> Result<(JobRow, LogTail), LeaseError> {
        let mut leased = self.lease(fence)?;
        let row = self.confirm(&leased).await?;
        self.drop_lease(fence.job);
        self.flush_tail(fence.job, &mut leased.tail)?;
        Ok((row, leased.tail))
    }
}
