//! Ends jobs, for their worker or for the store itself: terminal event, row, output, conversation, queue and
//! webhook in one transaction (P4).

use crate::domain::event::{FailureCode, Record};
use crate::domain::job::JobOutcome;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::postgres::jobs::row::{move_row, tail};
use crate::store::postgres::session::{Columns, document, sql_number};
use crate::store::postgres::writer::act::Act;
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
            self.append(fence.job, &mut leased.tail, record);
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
        let (job, epoch) = (leased.row.id(), leased.row.job.epoch);
        let sql = "SELECT cancel_requested, accept FROM jobs WHERE id = $1 AND epoch = $2 AND lease_node = $3 \
                   AND status = 'running' FOR NO KEY UPDATE";
        let params = (job.to_string(), sql_number(epoch), self.shared.node.id());
        let found = self.session.row(sql, &[&params.0, &params.1, &params.2]).await?;
        let found = found.ok_or(LeaseError::Fenced { job })?;
        let mut row = JobRow::clone(&leased.row);
        row.job.cancel_requested = found.column(0)?;
        row.accept = found.number(1)?;
        Ok(row)
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
        self.append_event(row.id(), tail, ending.event.clone());
        self.book(row).await?;
        row.queue_place = QueuePlace::Out;
        row.close(ending, tail.seq, self.now_ms);
        move_row(row, ending.status())?;
        self.effects.metrics.end(row, &ending.event);
        self.effects.unfinished = self.effects.unfinished.saturating_sub(1);
        self.put_row(row).await?;
        self.put_output(row, &ending.output_text).await?;
        self.count_answer(row, ending).await?;
        self.announce_event(row.id(), tail.seq);
        self.admit_next(row).await?;
        if let Some(url) = row.job.webhook_url.clone() {
            self.report(row.job.user, WebhookSubject::Job(row.id()), &url).await?;
        }
        self.end_line(&row.job);
        Ok(())
    }

    async fn put_output(&mut self, row: &JobRow, output_text: &str) -> Result<(), StoreError> {
        if output_text.is_empty() {
            return Ok(());
        }
        let output = document(&output_text)?;
        self.count_bytes(row.job.user, sql_number(output.len()));
        let sql = "UPDATE jobs SET output = $2::text::json WHERE id = $1";
        self.session.execute(sql, &[&row.id().to_string(), &output]).await?;
        Ok(())
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
        self.flush_tail(fence.job, &mut leased.tail);
        Ok((row, leased.tail))
    }
}
