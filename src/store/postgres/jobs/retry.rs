//! Runs a failed job again from its last recorded step. It is accepted again, after later jobs of its
//! conversation (P7).

use crate::domain::event::{Event, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::ports::{JobChangeError, NewWork, StoreError};
use crate::store::postgres::jobs::row::{move_row, tail};
use crate::store::postgres::session::{Columns, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{JobRow, RETRIED};

/// The stage of retention that leaves a job its terminal event only.
const CUT: i16 = 2;

impl Act<'_> {
    /// Queues a failed job of a user again.
    pub(crate) async fn retry_job(
        &mut self,
        user: UserId,
        job: JobId,
    ) -> Result<Option<Job>, JobChangeError> {
        let Some(mut row) = self.lock_own_row(user, job).await? else { return Ok(None) };
        if row.job.status != JobStatus::Failed {
            return Err(JobChangeError::WrongState { status: row.job.status });
        }
        if row.job.imported_at_ms.is_some() {
            return Err(JobChangeError::Imported);
        }
        let sql = "SELECT retention >= $2 FROM jobs WHERE id = $1";
        if self.session.one(sql, &[&job.to_string(), &CUT]).await?.column(0)? {
            return Err(JobChangeError::LogCut);
        }
        // Its conversation was removed; the sweeper has not deleted the job yet.
        if row.job.conversation_id.is_some() && self.conversation_of(&row).await?.is_none() {
            return Ok(None);
        }
        if self.is_replaced(&row).await? {
            return Ok(None);
        }
        self.check_queue_limit(1, |limit| JobChangeError::QueueFull { limit }).await?;
        self.admit_work::<JobChangeError>(user, NewWork::job(0)).await?;
        self.accept_again(&mut row).await?;
        Ok(Some(self.shown(row).await?))
    }

    async fn accept_again(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        // Its whole input is asked again. The next end writes the output again.
        self.forget_turn(row).await?;
        let sql = "WITH old AS (SELECT octet_length(output::text)::bigint AS bytes FROM jobs WHERE id = $1) \
                   UPDATE jobs SET output = NULL, retention = 0, fair = NULL WHERE id = $1 \
                   RETURNING nextval('accept_numbers'), (SELECT coalesce(bytes, 0) FROM old)";
        let found = self.session.one(sql, &[&row.id().to_string()]).await?;
        self.count_bytes(row.job.user, sql_number(found.number(1)?).saturating_neg());
        self.effects.unfinished = self.effects.unfinished.saturating_add(1);
        self.effects.metrics.accept();
        let old_accept = row.accept;
        row.accept_again(found.number(0)?, self.now_ms);
        self.reenter_conversation(row, old_accept).await?;
        self.reopen_line(&row.job).await?;
        self.flush().await?;
        let mut tail = tail(&self.session, row.id()).await?;
        let (status, attempt, reason) = (StatusPhase::Queued, row.job.attempt, Some(RETRIED.to_owned()));
        self.append_event(row.id(), &mut tail, Event::Status { status, attempt, reason })?;
        row.job.last_event_id = tail.seq;
        move_row(row, JobStatus::Queued)?;
        self.apply_conditions(row).await?;
        self.enqueue(row).await?;
        self.put_row(row).await?;
        if let Some(at_ms) = row.ends_at_ms() {
            self.put_end(row.id(), Some(at_ms)).await?;
        }
        self.announce_event(row.id(), tail.seq);
        Ok(())
    }
}
