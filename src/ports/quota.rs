//! The quotas of an account: the work that it may submit, and the storage that one project may use.
//! Submissions, schedules that fire and batches that continue all ask [`WorkQuota::admit`].

use super::accounts::{ACCOUNT_DAY_MS, Accounts};
use super::projects::Projects;
use super::quota_refusal::QuotaRefusal;
use super::store::Store;
use super::store_error::StoreError;
use super::users::Users;
use super::workspaces::{FileError, Workspaces};
use crate::domain::account::Quota;
use crate::domain::id::UserId;
use crate::domain::project::Project;
use crate::domain::usage::Usage;
use crate::domain::workspace::Workspace;

/// Work that an account submits.
#[derive(Debug, Clone, Copy)]
pub struct NewWork {
    /// Jobs; without any, only the bytes are checked.
    pub jobs: u64,
    /// Approximate bytes that it adds to the store.
    pub bytes: u64,
}

impl NewWork {
    /// One job with an input of so many bytes.
    pub fn job(bytes: usize) -> Self {
        Self { jobs: 1, ..Self::bytes(bytes) }
    }

    /// Bytes without a job.
    pub fn bytes(bytes: usize) -> Self {
        Self { jobs: 0, bytes: u64::try_from(bytes).unwrap_or(u64::MAX) }
    }
}

/// The used part of an account's quota for work. Unlimited quotas are not counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkQuota {
    /// The limits.
    pub quota: Quota,
    /// Unfinished jobs; lines of batches included.
    pub unfinished_jobs: u64,
    /// Tokens and cost of today (UTC).
    pub usage_today: Usage,
    /// Bytes in the store.
    pub stored_bytes: u64,
}

impl WorkQuota {
    /// Reads the used part of the quota.
    pub fn read(
        (store, users, accounts): (&dyn Store, &dyn Users, &dyn Accounts),
        user: UserId,
        now_ms: u64,
    ) -> Result<Self, StoreError> {
        let quota = users.account(user)?.map(|account| account.quota).unwrap_or_default();
        let usage_today = || {
            let today = Self::day(now_ms);
            let mut sum = Usage::default();
            accounts.usage(user, today, today)?.iter().for_each(|line| sum += line.usage);
            Ok(sum)
        };
        let unfinished_jobs = || store.unfinished_count(user, u64::MAX);
        Self::count(quota, unfinished_jobs, usage_today, || accounts.stored_bytes(user))
    }

    /// Counts the used part. What has no limit is not counted.
    pub fn count(
        quota: Quota,
        unfinished_jobs: impl FnOnce() -> Result<u64, StoreError>,
        usage_today: impl FnOnce() -> Result<Usage, StoreError>,
        stored_bytes: impl FnOnce() -> Result<u64, StoreError>,
    ) -> Result<Self, StoreError> {
        let has_daily = quota.tokens_per_day.is_some() || quota.cost_micros_per_day.is_some();
        Ok(Self {
            quota,
            unfinished_jobs: quota.unfinished_jobs.map_or(Ok(0), |_| unfinished_jobs())?,
            usage_today: if has_daily { usage_today()? } else { Usage::default() },
            stored_bytes: quota.stored_bytes.map_or(Ok(0), |_| stored_bytes())?,
        })
    }

    /// Counts work that was admitted.
    pub fn add(&mut self, new: NewWork) {
        self.unfinished_jobs = self.unfinished_jobs.saturating_add(new.jobs);
        self.stored_bytes = self.stored_bytes.saturating_add(new.bytes);
    }

    /// The day of the quotas of tokens and cost, in days since 1970 (UTC).
    pub fn day(now_ms: u64) -> u32 {
        u32::try_from(now_ms / ACCOUNT_DAY_MS).unwrap_or(u32::MAX)
    }

    /// Checks whether this work may be submitted.
    pub fn admit(&self, new: NewWork, now_ms: u64) -> Result<(), QuotaRefusal> {
        if new.jobs > 0 {
            self.admit_jobs(new.jobs, now_ms)?;
        }
        let stored = self.stored_bytes;
        match self.quota.stored_bytes {
            Some(limit) if stored >= limit => Err(QuotaRefusal::Bytes { stored, limit }),
            Some(limit) if stored.saturating_add(new.bytes) > limit => {
                Err(QuotaRefusal::NewBytes { new: new.bytes, stored, limit })
            }
            _ => Ok(()),
        }
    }

    /// The same in the transaction that stores the work. Tokens and cost of the day do not count here: work
    /// that was admitted before may wait for them.
    pub fn admit_stored(self, new: NewWork, now_ms: u64) -> Result<(), QuotaRefusal> {
        let quota = Quota { tokens_per_day: None, cost_micros_per_day: None, ..self.quota };
        Self { quota, ..self }.admit(new, now_ms)
    }

    fn admit_jobs(&self, new: u64, now_ms: u64) -> Result<(), QuotaRefusal> {
        let Usage { total_tokens, cost_micros, .. } = self.usage_today;
        let retry_after_s = ACCOUNT_DAY_MS.saturating_sub(now_ms % ACCOUNT_DAY_MS).div_ceil(1_000);
        if let Some(limit) = self.quota.tokens_per_day.filter(|limit| total_tokens >= *limit) {
            return Err(QuotaRefusal::Tokens { limit, retry_after_s });
        }
        if let Some(limit) = self.quota.cost_micros_per_day.filter(|limit| cost_micros >= *limit) {
            return Err(QuotaRefusal::Cost { limit, retry_after_s });
        }
        let unfinished = self.unfinished_jobs;
        match self.quota.unfinished_jobs {
            Some(limit) if unfinished >= limit => Err(QuotaRefusal::Jobs { limit }),
            Some(limit) if unfinished.saturating_add(new) > limit => {
                Err(QuotaRefusal::NewJobs { new, unfinished, limit })
            }
            _ => Ok(()),
        }
    }
}

/// An account's quota and its use by other projects, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaShare {
    /// Limit for all projects of the account and its memory together.
    pub quota: u64,
    /// Bytes in the others of these.
    pub others: u64,
}

impl QuotaShare {
    /// Bytes that this project or memory may hold.
    pub fn left(self) -> u64 {
        self.quota.saturating_sub(self.others)
    }
}

/// The ports that the share is computed from.
#[derive(Clone, Copy)]
pub struct QuotaSources<'a> {
    /// Provides the quota.
    pub users: &'a dyn Users,
    /// Provides the other projects.
    pub projects: &'a dyn Projects,
    /// Provides their sizes.
    pub workspaces: &'a dyn Workspaces,
}

impl QuotaSources<'_> {
    /// The project's share; `None` when its owner has no quota.
    pub fn share<E>(&self, project: &Project) -> Result<Option<QuotaShare>, E>
    where
        E: From<StoreError> + From<FileError>,
    {
        self.share_of(&Workspace::from(project))
    }

    /// The share of a project or of the owner's memory; `None` without a quota.
    pub fn share_of<E>(&self, workspace: &Workspace) -> Result<Option<QuotaShare>, E>
    where
        E: From<StoreError> + From<FileError>,
    {
        let account = self.users.account(workspace.user)?;
        let Some(quota) = account.and_then(|account| account.quota.project_bytes) else { return Ok(None) };
        let projects = self.projects.all_projects(workspace.user)?;
        let mut others: Vec<Workspace> = projects.iter().map(Workspace::from).collect();
        others.push(Workspace::of_memory(workspace.user));
        others.retain(|other| other.id != workspace.id);
        Ok(Some(QuotaShare { quota, others: self.workspaces.bytes_of(&others)? }))
    }
}
