//! The used part of an account's quota, as an open transaction sees it.

use crate::domain::account::Quota;
use crate::domain::id::UserId;
use crate::domain::usage::Usage;
use crate::ports::{NewWork, QuotaRefusal, StoreError, WorkQuota};
use crate::store::redb::accounts::usage::lines;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// Refuses work beyond the user's quotas of jobs and bytes. Accepted work may wait for tokens and cost.
    pub(crate) fn admit_work<E>(&self, user: UserId, new: NewWork) -> Result<(), E>
    where
        E: From<StoreError> + From<QuotaRefusal>,
    {
        if !self.bounds.has_quotas {
            return Ok(());
        }
        let mut quota = self.work_quota(user)?;
        let pending = self.pending_bytes.get(&user).copied().unwrap_or_default();
        quota.stored_bytes = quota.stored_bytes.saturating_add(pending);
        Ok(quota.admit_stored(new, self.now_ms)?)
    }

    /// The same for work whose rows this transaction writes.
    pub(crate) fn admit_rows<E>(&mut self, user: UserId, new: NewWork) -> Result<(), E>
    where
        E: From<StoreError> + From<QuotaRefusal>,
    {
        let bytes = new.bytes;
        self.admit_work::<E>(user, new)?;
        self.add_pending_bytes(user, bytes);
        Ok(())
    }

    /// Rows of so many bytes were admitted, which the sums count at the end of this transaction only.
    pub(crate) fn add_pending_bytes(&mut self, user: UserId, bytes: u64) {
        let pending = self.pending_bytes.entry(user).or_default();
        *pending = pending.saturating_add(bytes);
    }

    /// The used part of a user's quota for new work: unfinished jobs include the lines of batches.
    pub(crate) fn work_quota(&self, user: UserId) -> Result<WorkQuota, StoreError> {
        self.count_quota(user, || Ok(self.unfinished_work(user)?.all()))
    }

    /// The used part of a user's quota for lines of batches that were counted when the batch was accepted.
    pub(crate) fn line_quota(&self, user: UserId) -> Result<WorkQuota, StoreError> {
        self.count_quota(user, || Ok(self.unfinished_work(user)?.jobs))
    }

    fn count_quota(
        &self,
        user: UserId,
        unfinished_jobs: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<WorkQuota, StoreError> {
        if !self.bounds.has_quotas {
            return Ok(WorkQuota::default());
        }
        let quota = match self.tables.account(user, self.now_ms) {
            // An account that cannot be read may not spend anything.
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(user = user.0, reason, "account cannot be read; its work waits");
                Quota { tokens_per_day: Some(0), ..Quota::default() }
            }
            account => account?.map(|account| account.quota).unwrap_or_default(),
        };
        let usage_today = || {
            let today = WorkQuota::day(self.now_ms);
            let mut sum = Usage::default();
            lines(&self.tables.usage, user, today, today)?.iter().for_each(|(_, row)| sum += row.usage);
            Ok(sum)
        };
        WorkQuota::count(quota, unfinished_jobs, usage_today, || self.stored_bytes_with_files(user))
    }
}
