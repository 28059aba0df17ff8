//! Batches whose next lines wait for a quota of their owner. They continue when the quota has room again:
//! after a line of theirs ends, and at a check that the scheduler of each node makes every few seconds.

use crate::domain::id::{BatchId, UserId};
use crate::ports::{NewWork, QuotaRefusal, StoreError, WorkQuota};
use crate::store::postgres::accounts::quota::UnfinishedWork;
use crate::store::postgres::session::{Columns, SqlSession};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::BatchRow;
use std::collections::{BTreeMap, BTreeSet};

/// Most batches that one transaction continues.
const RESUMED: usize = 16;

/// Most users whose quotas one transaction reads. If more wait, each check takes others.
const CHECKED_USERS: i64 = 64;

/// Whether a batch waits for a quota.
pub(crate) async fn is_any_waiting(session: &SqlSession<'_>) -> Result<bool, StoreError> {
    let sql = "SELECT EXISTS (SELECT FROM batches WHERE waiting_for IS NOT NULL)";
    session.one(sql, &[]).await?.column(0)
}

/// Records whether the batch waits, and for which quota. The caller writes the row.
pub(crate) fn set_waiting(row: &mut BatchRow, refusal: Option<QuotaRefusal>) {
    let (batch, user) = (row.batch.id, row.batch.user);
    let quota = refusal.map(QuotaRefusal::kind);
    if quota == row.batch.waiting_for {
        return;
    }
    if let Some(refusal) = refusal {
        tracing::info!(%batch, user = user.0, %refusal, "batch waits for a quota");
    } else {
        tracing::info!(%batch, user = user.0, "batch waits no longer");
    }
    row.batch.waiting_for = quota;
}

impl Act<'_> {
    /// The used parts of these users' quotas for lines that start. A quota of unfinished jobs is locked until
    /// the end of the transaction: lines start for one batch of its user after the other. Rows of batches are
    /// locked before.
    pub(crate) async fn line_quotas(
        &mut self,
        users: impl IntoIterator<Item = UserId>,
    ) -> Result<BTreeMap<UserId, WorkQuota>, StoreError> {
        let users: BTreeSet<UserId> = users.into_iter().collect();
        let mut quotas = BTreeMap::new();
        for user in users {
            let mut quota = self.quota_of(user, UnfinishedWork::Jobs).await?;
            if quota.quota.unfinished_jobs.is_some() {
                let sql = "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' lines ' || $1::text, 0))";
                self.session.send(sql, &[&user.0.to_string()]).await?;
                quota = self.quota_of(user, UnfinishedWork::Jobs).await?;
            }
            quotas.insert(user, quota);
        }
        Ok(quotas)
    }

    /// Starts lines of waiting batches whose owner's quota has room. Returns whether there may be more of
    /// them. Only one node does so at a time.
    pub(crate) async fn resume_waiting_batches(&mut self) -> Result<bool, StoreError> {
        self.settle_line_ends().await?;
        let sql = "SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || ' resume', 0))";
        if !self.session.one(sql, &[]).await?.column::<bool>(0)? {
            return Ok(false);
        }
        let with_room = self.users_with_room().await?;
        if with_room.is_empty() {
            return Ok(false);
        }
        let rows = self.lock_waiting(&with_room).await?;
        let looked_at = rows.len();
        let mut quotas = self.line_quotas(rows.iter().map(|row| row.batch.user)).await?;
        let mut used_up = BTreeSet::new();
        for mut row in rows {
            if used_up.contains(&row.batch.user) {
                continue;
            }
            let quota = quotas.entry(row.batch.user).or_default();
            self.start_lines(&mut row, quota).await?;
            self.put_batch(&row).await?;
            if row.batch.waiting_for.is_some() {
                used_up.insert(row.batch.user);
            }
        }
        Ok(looked_at >= RESUMED)
    }

    /// Users with a waiting batch whose quota has room.
    async fn users_with_room(&mut self) -> Result<Vec<i64>, StoreError> {
        let sql = "SELECT user_id FROM (SELECT DISTINCT user_id FROM batches WHERE waiting_for IS NOT NULL) AS w \
                   ORDER BY random() LIMIT $1";
        let mut with_room = Vec::new();
        for found in self.session.rows(sql, &[&CHECKED_USERS]).await? {
            let quota = self.quota_of(found.user(0)?, UnfinishedWork::Jobs).await?;
            if quota.admit(NewWork::job(0), self.now_ms).is_ok() {
                with_room.push(found.column(0)?);
            }
        }
        Ok(with_room)
    }

    /// The waiting batches of these users that no other transaction changes now.
    async fn lock_waiting(&mut self, users: &[i64]) -> Result<Vec<BatchRow>, StoreError> {
        let sql = "SELECT id, row::text FROM batches WHERE user_id = ANY($1) AND waiting_for IS NOT NULL \
                   ORDER BY user_id, id LIMIT $2 FOR UPDATE SKIP LOCKED";
        let most = i64::try_from(RESUMED).unwrap_or(i64::MAX);
        let mut rows = Vec::new();
        for found in self.session.rows(sql, &[&users, &most]).await? {
            let batch: BatchId = found.parsed(0)?;
            match found.document(1) {
                Ok(row) => rows.push(row),
                Err(reason) => {
                    tracing::error!(%batch, %reason, "waiting batch cannot be read; it does not continue");
                    let sql = "UPDATE batches SET waiting_for = NULL WHERE id = $1";
                    self.session.send(sql, &[&batch.to_string()]).await?;
                }
            }
        }
        Ok(rows)
    }
}
