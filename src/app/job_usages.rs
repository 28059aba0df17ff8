//! What the workspaces of jobs hold, by user, for the limits of a job and of all jobs of a user. Kept in
//! memory: the first use after a start counts a user's directories, and each write counts its own again.
//! Where other nodes have jobs, too, a count is repeated once it is old.

use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::domain::workspace::{Workspace, WorkspaceId};
use crate::ports::{
    Clock, DirectoryLimit, FileError, StorageAllowance, StorageScope, StorageUsage, Workspaces,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Age of a count after which it is repeated, milliseconds.
const COUNT_AGE_MS: u64 = 10_000;
/// Counts may take this part of the time: after a long one the next one is later.
const COUNT_SHARE: u64 = 20;

/// The usages of all users.
pub(super) struct JobUsages {
    workspaces: Arc<dyn Workspaces>,
    job: StorageUsage,
    user: StorageUsage,
    /// For counts that are repeated; `None`: one count is enough.
    clock: Option<Arc<dyn Clock>>,
    users: Mutex<HashMap<UserId, Arc<Mutex<UserUsage>>>>,
}

/// The usage of one user's jobs.
#[derive(Default)]
struct UserUsage {
    is_counted: bool,
    /// Monotonic time of the next count, where counts are repeated.
    next_count_ms: u64,
    jobs: HashMap<JobId, StorageUsage>,
    total: StorageUsage,
}

impl UserUsage {
    /// Replaces the usage of a job and returns its former one.
    fn put(&mut self, job: JobId, now: StorageUsage) -> StorageUsage {
        let before =
            if now == StorageUsage::default() { self.jobs.remove(&job) } else { self.jobs.insert(job, now) };
        let before = before.unwrap_or_default();
        self.total = sum(difference(self.total, before), now);
        before
    }

    fn of(&self, job: JobId) -> StorageUsage {
        self.jobs.get(&job).copied().unwrap_or_default()
    }
}

fn sum(a: StorageUsage, b: StorageUsage) -> StorageUsage {
    StorageUsage { bytes: a.bytes.saturating_add(b.bytes), entries: a.entries.saturating_add(b.entries) }
}

fn difference(a: StorageUsage, b: StorageUsage) -> StorageUsage {
    StorageUsage { bytes: a.bytes.saturating_sub(b.bytes), entries: a.entries.saturating_sub(b.entries) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JobUsages {
    /// Nothing is counted yet.
    pub(super) fn new(limits: &Limits, workspaces: &Arc<dyn Workspaces>) -> Self {
        Self {
            workspaces: Arc::clone(workspaces),
            job: StorageUsage { bytes: limits.job_bytes, entries: limits.job_entries },
            user: StorageUsage { bytes: limits.user_job_bytes, entries: limits.user_job_entries },
            clock: None,
            users: Mutex::default(),
        }
    }

    /// Repeats counts that are old.
    pub(super) fn counted_again(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// What a job's workspace may hold now.
    pub(super) fn allowance(&self, user: UserId, job: JobId) -> Result<StorageAllowance, FileError> {
        let usage = self.of_user(user);
        let usage = self.counted(user, &usage)?;
        let left = difference(self.user, difference(usage.total, usage.of(job)));
        Ok(StorageAllowance {
            bytes: self.job.bytes.min(left.bytes),
            entries: self.job.entries.min(left.entries),
            scope: StorageScope::Job,
        })
    }

    /// Records what a job's workspace holds.
    pub(super) fn record(&self, user: UserId, job: JobId, now: StorageUsage) -> Result<(), FileError> {
        let usage = self.of_user(user);
        self.counted(user, &usage)?.put(job, now);
        Ok(())
    }

    /// Records that a job's workspace was removed.
    pub(super) fn forget(&self, user: UserId, job: JobId) {
        let usage = lock(&self.users).get(&user).map(Arc::clone);
        if let Some(usage) = usage {
            lock(&usage).put(job, StorageUsage::default());
        }
    }

    /// The limit of programs that run in a job's workspace now.
    pub(super) fn limit(self: &Arc<Self>, user: UserId, job: JobId) -> Result<JobDirectoryLimit, FileError> {
        let most = self.allowance(user, job)?.bytes;
        let usage = self.of_user(user);
        let mut usage = self.counted(user, &usage)?;
        let mut start = usage.of(job);
        if start.bytes > self.job.bytes || start.entries > self.job.entries {
            // A run's last count stops above the limit. Its successor, which cleans up, may hold all of it.
            start = self.workspaces.usage(&Workspace::of_job(user, job))?;
            usage.put(job, start);
        }
        drop(usage);
        Ok(JobDirectoryLimit { usages: Arc::clone(self), user, job, start, most })
    }

    fn of_user(&self, user: UserId) -> Arc<Mutex<UserUsage>> {
        Arc::clone(lock(&self.users).entry(user).or_default())
    }

    /// Counts the workspaces of the user's jobs, unless they were counted before.
    fn counted<'u>(
        &self,
        user: UserId,
        usage: &'u Mutex<UserUsage>,
    ) -> Result<MutexGuard<'u, UserUsage>, FileError> {
        let mut usage = lock(usage);
        let now_ms = || self.clock.as_ref().map_or(0, |clock| clock.monotonic_ms());
        let begin_ms = now_ms();
        if usage.is_counted && self.clock.is_some() && begin_ms >= usage.next_count_ms {
            *usage = UserUsage::default();
        }
        if !usage.is_counted {
            for workspace in self.workspaces.job_workspaces(Some(user))? {
                if let Workspace { id: WorkspaceId::Job(job), .. } = workspace {
                    let held = self.workspaces.usage(&workspace)?;
                    usage.put(job, held);
                }
            }
            usage.is_counted = true;
            let end_ms = now_ms();
            let pause_ms = end_ms.saturating_sub(begin_ms).saturating_mul(COUNT_SHARE).max(COUNT_AGE_MS);
            usage.next_count_ms = end_ms.saturating_add(pause_ms);
        }
        Ok(usage)
    }
}

/// Bounds the programs of one job. A directory that is too full may shrink, so that a program can clean up.
pub(super) struct JobDirectoryLimit {
    usages: Arc<JobUsages>,
    user: UserId,
    job: JobId,
    start: StorageUsage,
    /// Bytes that the directory could hold at the start.
    most: u64,
}

impl JobDirectoryLimit {
    fn exceeded(&self, now: StorageUsage, all: StorageUsage) -> Option<(&'static str, String)> {
        let (job, user, start) = (self.usages.job, self.usages.user, self.start);
        let own = |what: &str, limit: u64| format!("this job's directory held more than {limit} {what}");
        let together = |what: &str, limit: u64| {
            format!(
                "the directories of this account's jobs held more than {limit} {what} together; delete jobs \
                 that are not needed any more"
            )
        };
        if now.bytes > start.bytes && now.bytes > job.bytes {
            Some(("job_bytes", own("bytes", job.bytes)))
        } else if now.entries > start.entries && now.entries > job.entries {
            Some(("job_entries", own("files and directories", job.entries)))
        } else if now.bytes > start.bytes && all.bytes > user.bytes {
            Some(("user_job_bytes", together("bytes", user.bytes)))
        } else if now.entries > start.entries && all.entries > user.entries {
            Some(("user_job_entries", together("files and directories", user.entries)))
        } else {
            None
        }
    }
}

impl DirectoryLimit for JobDirectoryLimit {
    fn max_bytes(&self) -> u64 {
        self.most
    }

    fn max_entries(&self) -> u64 {
        self.usages.job.entries.max(self.start.entries)
    }

    fn check(&self, bytes: u64, entries: u64) -> Result<(), (&'static str, String)> {
        let now = StorageUsage { bytes, entries };
        let usage = self.usages.of_user(self.user);
        let all = {
            let mut usage = lock(&usage);
            usage.put(self.job, now);
            usage.total
        };
        self.exceeded(now, all).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::workspace::UserDirectories;
    use crate::workspace::HostFiles;

    const USER: UserId = UserId(1);

    fn usages(home: &std::path::Path, limits: &Limits) -> (Arc<JobUsages>, Arc<dyn Workspaces>) {
        let clock = Arc::new(SystemClock::new());
        let users = UserDirectories::new(&[7; 32]);
        let files: Arc<dyn Workspaces> = Arc::new(HostFiles::new(home.to_owned(), users, limits, clock));
        (Arc::new(JobUsages::new(limits, &files)), files)
    }

    fn job(bits: u128) -> JobId {
        JobId::from_bits(bits)
    }

    fn limits() -> Limits {
        Limits {
            job_bytes: 100,
            job_entries: 5,
            user_job_bytes: 150,
            user_job_entries: 8,
            ..Limits::default()
        }
    }

    #[test]
    fn p8_a_job_may_hold_its_own_limit_and_what_the_users_other_jobs_leave() {
        let home = tempfile::tempdir().unwrap();
        let (usages, _) = usages(home.path(), &limits());
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 100);
        usages.record(USER, job(2), StorageUsage { bytes: 90, entries: 6 }).unwrap();
        let left = usages.allowance(USER, job(1)).unwrap();
        assert_eq!((left.bytes, left.entries), (60, 2));
        assert_eq!(usages.allowance(USER, job(2)).unwrap().bytes, 100, "its own files do not count twice");
        assert_eq!(usages.allowance(UserId(2), job(1)).unwrap().bytes, 100, "users do not share");
        usages.forget(USER, job(2));
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 100);
    }

    #[test]
    fn p8_a_program_is_stopped_by_the_limit_that_it_grows_over() {
        let home = tempfile::tempdir().unwrap();
        let (usages, _) = usages(home.path(), &limits());
        let limit = usages.limit(USER, job(1)).unwrap();
        assert_eq!(limit.check(100, 5), Ok(()));
        assert_eq!(limit.check(101, 5).unwrap_err().0, "job_bytes");
        assert_eq!(limit.check(1, 6).unwrap_err().0, "job_entries");
        assert_eq!(limit.check(100, 5), Ok(()));
        let other = usages.limit(USER, job(2)).unwrap();
        assert_eq!(other.check(50, 3), Ok(()), "both fit");
        let (name, message) = other.check(51, 3).unwrap_err();
        assert_eq!(name, "user_job_bytes");
        assert!(message.contains("delete jobs"), "{message}");
        assert_eq!(other.check(1, 4).unwrap_err().0, "user_job_entries");
    }

    #[test]
    fn a_program_in_an_overfull_directory_may_shrink_it() {
        let home = tempfile::tempdir().unwrap();
        let (usages, files) = usages(home.path(), &limits());
        let workspace = Workspace::of_job(USER, job(1));
        files.make(&workspace).unwrap();
        for n in 0..50 {
            std::fs::write(files.absolute(&workspace).join(n.to_string()), [0; 10]).unwrap();
        }
        // The count at the end of a run stops above the limit.
        usages.record(USER, job(1), StorageUsage { bytes: 60, entries: 6 }).unwrap();
        let limit = usages.limit(USER, job(1)).unwrap();
        assert_eq!(limit.check(500, 50), Ok(()));
        assert_eq!(limit.check(400, 40), Ok(()));
        assert_eq!(limit.max_entries(), 50);
        assert_eq!(limit.check(501, 50).unwrap_err().0, "job_bytes");
    }

    #[test]
    fn a_count_is_repeated_where_other_nodes_have_jobs_too() {
        let home = tempfile::tempdir().unwrap();
        let (usages, files) = usages(home.path(), &limits());
        let usages = Arc::into_inner(usages).unwrap().counted_again(Arc::new(SystemClock::new()));
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 100);
        let workspace = Workspace::of_job(USER, job(7));
        files.make(&workspace).unwrap();
        std::fs::write(files.absolute(&workspace).join("f"), [0; 80]).unwrap();
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 100, "the count is young");
        lock(&usages.of_user(USER)).next_count_ms = 0;
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 70);
    }

    #[test]
    fn the_first_use_after_a_start_counts_what_is_on_the_disk() {
        let home = tempfile::tempdir().unwrap();
        let (usages, files) = usages(home.path(), &limits());
        let workspace = Workspace::of_job(USER, job(7));
        files.make(&workspace).unwrap();
        std::fs::write(files.absolute(&workspace).join("f"), [0; 80]).unwrap();
        assert_eq!(usages.allowance(USER, job(1)).unwrap().bytes, 70);
    }
}
