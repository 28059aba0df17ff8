//! One turn of retention: what is due by age, in one transaction of bounded size. Any node may take the turn;
//! [`super::super::sweeper`] decides when this one tries.

use crate::ports::StoreError;
use crate::store::postgres::node::DATABASE_MS;
use crate::store::postgres::session::{Columns, document, read_document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::clock_trust::StoredClock;
use crate::store::rows::sweeper::{INTERVAL_MS, RetentionSweep};

/// Time after a turn in which no node takes the next one, milliseconds. A little less than the interval of
/// each node, so that a node that is always first does not miss every second turn.
const TURN_MS: u64 = INTERVAL_MS - 5_000;
/// Rows of other tables that one transaction removes.
const SWEEP_ROWS: u32 = 500;
/// Jobs and items of removed conversations that one transaction removes.
const SWEEP_TURNS: u32 = 50;

/// The outcome of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SweepTurn {
    /// Another node has the turn, or had it less than a minute ago.
    OfAnother,
    /// This node has removed what was due.
    Done {
        /// Whether more is due.
        has_more: bool,
    },
}

impl Act<'_> {
    /// Takes the turn of retention, if it is due. `is_continued`: this node has it, and more was due.
    pub(crate) async fn take_sweep_turn(&mut self, is_continued: bool) -> Result<SweepTurn, StoreError> {
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' retention', 0))";
        if !self.session.one(sql, &[]).await?.column::<bool>(0)? {
            return Ok(SweepTurn::OfAnother);
        }
        // In a statement of its own, so that it sees the turn before.
        let sql = format!("SELECT {DATABASE_MS}, (SELECT value FROM settings WHERE key = 'retention')");
        let row = self.session.one(&sql, &[]).await?;
        let last = stored_clock(row.column(1)?);
        let now = self.shared.database_reading(row.number(0)?);
        let distrust_ms = self.shared.clock_trust.check(now);
        if !is_continued && now.wall_ms.abs_diff(last.seen_ms) < TURN_MS {
            return Ok(SweepTurn::OfAnother);
        }
        let sweep = match distrust_ms {
            0 => RetentionSweep::at(&self.shared.options.retention, now.wall_ms),
            _ => RetentionSweep::default(),
        };
        let has_more = self.sweep(&sweep).await?;
        let sql = "INSERT INTO settings VALUES ('retention', $1) \
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        let seen = StoredClock { seen_ms: now.wall_ms, distrust_ms };
        self.session.send(sql, &[&document(&seen)?]).await?;
        Ok(SweepTurn::Done { has_more })
    }

    /// Removes some of what is due. Returns whether more is due.
    pub(crate) async fn sweep(&mut self, sweep: &RetentionSweep) -> Result<bool, StoreError> {
        swept("checkpoints", self.make_due_checkpoint().await)?;
        swept("jobs that wait for others", self.release_forgotten_dependents().await)?;
        let lines = swept("removed batches", self.sweep_removed_batches(SWEEP_ROWS).await)?;
        let turns = swept("removed conversations", self.sweep_removed_conversations(SWEEP_TURNS).await)?;
        let mut has_more = lines > 0 || turns >= SWEEP_TURNS;
        has_more |= self.join_quota_counts().await?;
        has_more |= swept("audit log", self.sweep_audit(SWEEP_ROWS).await)? >= SWEEP_ROWS;
        if let Some(before_ms) = sweep.jobs_before_ms {
            has_more |= swept("batches", self.forget_batches(before_ms).await)?;
            has_more |= swept("items of conversations", self.forget_old_items(before_ms).await)?;
        }
        if let Some(now_ms) = sweep.files_before_ms {
            has_more |= self.forget_expired_files(now_ms).await?;
            has_more |= self.forget_expired_keys(now_ms).await?;
            has_more |= swept("deliveries", self.sweep_deliveries(SWEEP_ROWS).await)? >= SWEEP_ROWS;
        }
        // The largest action comes first, because a removed job needs no other.
        if let Some(before_ms) = sweep.jobs_before_ms
            && self.forget_old_jobs(before_ms).await?
        {
            return Ok(true);
        }
        if let Some(before_ms) = sweep.events_before_ms
            && self.cut_old_logs(before_ms).await?
        {
            return Ok(true);
        }
        if let Some(before_ms) = sweep.deltas_before_ms {
            has_more |= self.fold_old_logs(before_ms).await?;
        }
        Ok(has_more)
    }

    /// Removes some expired idempotency keys. Returns whether there may be more.
    async fn forget_expired_keys(&mut self, now_ms: u64) -> Result<bool, StoreError> {
        let sql = "DELETE FROM idempotency USING (SELECT user_id, key FROM idempotency WHERE until_ms <= $1 \
                     ORDER BY until_ms LIMIT $2 FOR UPDATE SKIP LOCKED) AS due \
                   WHERE idempotency.user_id = due.user_id AND idempotency.key = due.key";
        let limit = sql_number(SWEEP_ROWS);
        let removed = self.session.execute(sql, &[&sql_number(now_ms), &limit]).await?;
        Ok(sql_number(removed) >= limit)
    }
}

/// The clock at the last turn, as the table `settings` has it.
pub(crate) fn stored_clock(value: Option<&str>) -> StoredClock {
    value.and_then(|text| read_document(text).ok()).unwrap_or_default()
}

/// A row that cannot be read stays, and does not block the others.
fn swept<T: Default>(part: &str, outcome: Result<T, StoreError>) -> Result<T, StoreError> {
    match outcome {
        Err(StoreError::Corrupt(reason)) => {
            tracing::error!(part, reason, "retention cannot read a row and leaves this part out");
            Ok(T::default())
        }
        other => other,
    }
}
