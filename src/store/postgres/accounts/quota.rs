//! The used part of an account's quota, as an open transaction sees it.

use crate::domain::account::Quota;
use crate::domain::id::UserId;
use crate::domain::usage::Usage;
use crate::ports::{NewWork, QuotaRefusal, StoreError, WorkQuota};
use crate::store::postgres::accounts::quota_room::is_ample;
use crate::store::postgres::accounts::stored_bytes::with_files;
use crate::store::postgres::accounts::usage_columns;
use crate::store::postgres::accounts::users::account;
use crate::store::postgres::session::{sql_number, sql_user};
use crate::store::postgres::writer::act::Act;

/// Which unfinished work of a user counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnfinishedWork {
    /// Jobs, and lines of batches that have no job yet: for new work.
    JobsAndLines,
    /// Jobs: for lines of batches, which were counted when their batch was accepted.
    Jobs,
}

impl Act<'_> {
    /// Refuses work beyond the user's quotas of jobs and bytes. Nodes that are near a limit count one after
    /// the other: the lock is held until the end of the transaction. Accepted work may wait for tokens
    /// and cost.
    pub(crate) async fn admit_work<E>(&mut self, user: UserId, new: NewWork) -> Result<(), E>
    where
        E: From<StoreError> + From<QuotaRefusal>,
    {
        let monotonic_ms = self.shared.clock.monotonic_ms();
        if !self.limits.has_quotas || self.shared.quota_rooms.take(user, new, monotonic_ms) {
            return Ok(());
        }
        let mut quota = self.quota_of(user, UnfinishedWork::JobsAndLines).await?;
        if !is_ample(&quota, new) {
            self.lock_of_user("quota", user).await?;
            quota = self.quota_of(user, UnfinishedWork::JobsAndLines).await?;
        }
        quota.stored_bytes = quota.stored_bytes.saturating_add_signed(self.pending_bytes(user));
        quota.admit_stored(new, self.now_ms)?;
        self.shared.quota_rooms.set(user, &quota, new, monotonic_ms);
        Ok(())
    }

    /// The used part of a user's quota.
    pub(crate) async fn quota_of(
        &mut self,
        user: UserId,
        work: UnfinishedWork,
    ) -> Result<WorkQuota, StoreError> {
        if !self.limits.has_quotas {
            return Ok(WorkQuota::default());
        }
        let quota = match account(&self.session, user, self.now_ms).await {
            // An account that cannot be read may not spend anything.
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(user = user.0, reason, "account cannot be read; its work waits");
                Quota { tokens_per_day: Some(0), ..Quota::default() }
            }
            account => account?.map(|account| account.quota).unwrap_or_default(),
        };
        let jobs = match quota.unfinished_jobs {
            Some(_) => {
                let counts = self.unfinished_counts(user).await?;
                if work == UnfinishedWork::Jobs { counts.jobs } else { counts.all() }
            }
            None => 0,
        };
        let is_daily = quota.tokens_per_day.is_some() || quota.cost_micros_per_day.is_some();
        let usage = if is_daily { self.usage_today(user).await? } else { Usage::default() };
        let bytes = if quota.stored_bytes.is_some() { with_files(&self.session, user).await? } else { 0 };
        WorkQuota::count(quota, || Ok(jobs), || Ok(usage), || Ok(bytes))
    }

    /// Tokens and cost of today, with those that this transaction has booked.
    async fn usage_today(&mut self, user: UserId) -> Result<Usage, StoreError> {
        let today = WorkQuota::day(self.now_ms);
        let sql =
            format!("SELECT {} FROM usage_daily WHERE user_id = $1 AND day = $2", usage_columns::sums());
        let found = self.session.one(&sql, &[&sql_user(user), &sql_number(today)]).await?;
        let mut sum = usage_columns::read(&found, 0)?;
        let pending =
            self.usage.iter().filter(|(slot, _)| slot.user == user && !slot.is_hour && slot.at == today);
        pending.for_each(|(_, (usage, _))| sum += *usage);
        Ok(sum)
    }
}
