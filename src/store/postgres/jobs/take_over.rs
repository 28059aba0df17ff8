//! Takes over the jobs of a node that is gone, and those that this node lost: they are queued again.

use crate::domain::event::{FailureCode, StatusPhase};
use crate::ports::StoreError;
use crate::store::postgres::jobs::row::{ROW, read_row, tail};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::{CANCELLED, JobRow, POISON};
use crate::store::rows::lease::LogTail;
use tokio_postgres::Row;

/// Why a node lost its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeLoss {
    /// Its lease ended: it crashed, perhaps because of a job.
    Crash,
    /// Its lease ended because the database was away, which no job caused.
    Outage,
    /// It is this node, which could not reach the database, and has another number now.
    Own,
}

impl Act<'_> {
    /// Queues all jobs of a node again, if its lease has ended and no other node has done so. Returns how
    /// many there were.
    pub(crate) async fn take_over(&mut self, node: i64, loss: NodeLoss) -> Result<usize, StoreError> {
        // Waits for transactions of that node which have checked its lease; later ones fail.
        let sql = "DELETE FROM nodes WHERE id = $1 AND (lease_until < clock_timestamp() OR $2)";
        let is_own = loss == NodeLoss::Own;
        if self.session.execute(sql, &[&node, &is_own]).await? == 0 && !is_own {
            return Ok(0);
        }
        match loss {
            NodeLoss::Crash | NodeLoss::Outage => self.abandon_of_node(node).await?,
            NodeLoss::Own => self.keep_unaccepted_batches(node).await?,
        }
        let sql = format!(
            "SELECT {ROW}, jobs.id FROM jobs WHERE status = 'running' AND lease_node = $1 ORDER BY accept FOR NO KEY UPDATE"
        );
        let found = self.session.rows(&sql, &[&node]).await?;
        for found in &found {
            let read = self.read_interrupted(found).await;
            if let Some((mut row, tail)) = self.readable(read, found, 6).await? {
                self.recover(&mut row, tail, loss).await?;
            }
        }
        if !is_own {
            self.effects.metrics.take_over(u64::try_from(found.len()).unwrap_or(u64::MAX));
        }
        Ok(found.len())
    }

    async fn read_interrupted(&mut self, found: &Row) -> Result<(JobRow, LogTail), StoreError> {
        self.flush().await?;
        let row = read_row(found, 0)?;
        let tail = tail(&self.session, row.id()).await?;
        Ok((row, tail))
    }

    async fn recover(
        &mut self,
        row: &mut JobRow,
        mut tail: LogTail,
        loss: NodeLoss,
    ) -> Result<(), StoreError> {
        if row.job.cancel_requested {
            return self.end_unleased(row, FailureCode::Cancelled, CANCELLED).await;
        }
        if loss == NodeLoss::Crash && row.count_crash(self.limits.crashes) {
            return self.end_unleased(row, FailureCode::Poison, POISON).await;
        }
        let reason = match loss {
            NodeLoss::Crash => "resumed after a crash",
            NodeLoss::Outage | NodeLoss::Own => "resumed after the database was away",
        };
        row.resumed = Some(reason.to_owned());
        self.requeue(row, &mut tail, StatusPhase::Queued, Some(reason.to_owned())).await
    }
}
