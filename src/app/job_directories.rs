//! Removes the directories of deleted jobs: at once when the store reports a deletion, and by comparing the
//! disk with the store at the start and every minute, so that a crash or a failure leaves nothing behind.
//! Contents of deleted files are swept with them. Of nodes that share the directories one compares.

use super::job_usages::JobUsages;
use super::project_cleanup;
use crate::domain::workspace::{Workspace, WorkspaceId};
use crate::ports::{
    Clock, Contents, FileError, HeldLock, LockMode, NodeStore, SharedFiles, SharedLock, SharedLockKind,
    Workspaces,
};
use crate::store::RetentionAge;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two comparisons.
const INTERVAL_MS: u64 = 60_000;
/// A comparison may take this part of the time: after a long one the next one is delayed.
const WORK_SHARE: u64 = 100;

/// The lock of the node that compares.
const CLEANER: SharedLock = SharedLock { kind: SharedLockKind::Cleaner, slot: 0, mode: LockMode::Exclusive };

/// The parts that a cleaner works with.
pub(super) struct CleanerPorts {
    pub(super) store: Arc<dyn NodeStore>,
    pub(super) workspaces: Arc<dyn Workspaces>,
    pub(super) contents: Arc<dyn Contents>,
    pub(super) usages: Arc<JobUsages>,
    pub(super) clock: Arc<dyn Clock>,
    /// What nodes share, if there are several.
    pub(super) shared: Option<Arc<dyn SharedFiles>>,
}

/// The thread that removes directories.
pub(super) struct JobDirectoryCleaner {
    store: Arc<dyn NodeStore>,
    is_ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl JobDirectoryCleaner {
    /// Starts the thread. `keep`: the age of an ended job whose directory is removed although the job stays.
    pub(super) fn start(ports: CleanerPorts, keep: RetentionAge) -> std::io::Result<Self> {
        let (store, is_ended) = (Arc::clone(&ports.store), Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&is_ended);
        let thread = std::thread::Builder::new().name("job-files".to_owned()).spawn(move || {
            let mut cleaner = Cleaner::new(ports, keep);
            while !ended.load(Ordering::Acquire) {
                if catch_unwind(AssertUnwindSafe(|| cleaner.run_once(&ended))).is_err() {
                    tracing::error!("the removal of job directories panicked; continuing");
                }
            }
        })?;
        Ok(Self { store, is_ended, thread })
    }

    /// Ends the thread after the directory that it removes now.
    pub(super) fn end(self) {
        self.is_ended.store(true, Ordering::Release);
        self.store.wake_removal_waiter();
        if self.thread.join().is_err() {
            tracing::error!("the thread that removes job directories panicked");
        }
    }
}

struct Cleaner {
    ports: CleanerPorts,
    keep: RetentionAge,
    /// Monotonic time of the next comparison.
    next_ms: u64,
    /// Held by the node that compares, as long as it lives.
    lock: Option<HeldLock>,
}

impl Cleaner {
    fn new(ports: CleanerPorts, keep: RetentionAge) -> Self {
        let next_ms = ports.clock.monotonic_ms();
        Self { ports, keep, next_ms, lock: None }
    }

    /// Compares if it is time to, then waits for deletions and removes their directories.
    fn run_once(&mut self, is_ended: &AtomicBool) {
        let clock = Arc::clone(&self.ports.clock);
        let begin_ms = clock.monotonic_ms();
        if begin_ms >= self.next_ms {
            if self.is_cleaner() {
                self.clean(is_ended);
            }
            let end_ms = clock.monotonic_ms();
            let pause_ms = end_ms.saturating_sub(begin_ms).saturating_mul(WORK_SHARE).max(INTERVAL_MS);
            self.next_ms = end_ms.saturating_add(pause_ms);
        }
        let left = Duration::from_millis(self.next_ms.saturating_sub(clock.monotonic_ms()));
        for (user, job) in self.ports.store.wait_for_removed_jobs(left) {
            self.remove(&Workspace::of_job(user, job));
        }
    }

    /// Whether this process looks for leftovers: of nodes that share the directories one does.
    fn is_cleaner(&mut self) -> bool {
        let Some(shared) = &self.ports.shared else { return true };
        if shared.check().is_err() {
            self.lock = None;
        } else if self.lock.is_none() {
            self.lock = shared.try_lock(CLEANER).ok().flatten();
        }
        self.lock.is_some()
    }

    fn clean(&mut self, is_ended: &AtomicBool) {
        if let Some(shared) = &self.ports.shared {
            project_cleanup::remove_unclaimed(&*self.ports.store, &*self.ports.workspaces, &**shared);
        }
        self.compare(is_ended);
        if let Err(error) = self.ports.contents.sweep() {
            tracing::warn!(%error, "cannot remove the contents of deleted files; trying again later");
        }
    }

    /// Removes every directory whose job is gone or ended long ago.
    fn compare(&mut self, is_ended: &AtomicBool) {
        // The disk first: a job is stored before it can have a directory.
        let found = match self.ports.workspaces.job_workspaces(None) {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "cannot list the directories of jobs; trying again later");
                return;
            }
        };
        let before_ms = self.cutoff_ms();
        for workspace in found {
            if is_ended.load(Ordering::Acquire) {
                return;
            }
            if self.is_due(&workspace, before_ms) {
                self.remove(&workspace);
            }
        }
    }

    fn is_due(&self, workspace: &Workspace, before_ms: Option<u64>) -> bool {
        let WorkspaceId::Job(id) = workspace.id else { return false };
        match self.ports.store.job(workspace.user, id) {
            Ok(None) => true,
            Ok(Some(job)) => {
                let ended_ms = job.finished_at_ms.filter(|_| job.status.is_terminal());
                ended_ms.zip(before_ms).is_some_and(|(ended_ms, before_ms)| ended_ms < before_ms)
            }
            // An unreadable job keeps its files.
            Err(_) => false,
        }
    }

    /// Directories of jobs that ended earlier are due; none while the clock is distrusted.
    fn cutoff_ms(&self) -> Option<u64> {
        let is_trusted = self.ports.store.is_clock_trusted();
        self.keep.cutoff_ms(self.ports.clock.now_ms()).filter(|_| is_trusted)
    }

    fn remove(&self, workspace: &Workspace) {
        match self.ports.workspaces.remove(workspace) {
            Ok(()) => {
                if let WorkspaceId::Job(job) = workspace.id {
                    self.ports.usages.forget(workspace.user, job);
                }
            }
            // The node that compares removes it if this one may not.
            Err(FileError::NotFound(_) | FileError::Unavailable(_)) => {}
            Err(error) => {
                tracing::warn!(job = %workspace.id, %error, "cannot remove the directory of a job; trying again later");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::id::{JobId, UserId};
    use crate::domain::limits::Limits;
    use crate::domain::workspace::UserDirectories;
    use crate::ports::CancelToken;
    use crate::store::ContentDirectory;
    use crate::store::RedbStore;
    use crate::workspace::HostFiles;
    use std::sync::atomic::AtomicU64;

    fn cleaner(home: &std::path::Path) -> Cleaner {
        cleaner_with(home, Arc::new(SystemClock::new()))
    }

    fn cleaner_with(home: &std::path::Path, clock: Arc<dyn Clock>) -> Cleaner {
        let limits = Limits::default();
        let users = UserDirectories::new(&[7; 32]);
        let workspaces: Arc<dyn Workspaces> =
            Arc::new(HostFiles::new(home.join("ws"), users, &limits, Arc::clone(&clock)));
        let usages = Arc::new(JobUsages::new(&limits, &workspaces));
        let store = RedbStore::in_memory(Arc::clone(&clock));
        let contents = Arc::new(ContentDirectory::open(&home.join("files"), Arc::<RedbStore>::clone(&store)));
        Cleaner::new(
            CleanerPorts { store, workspaces, contents, usages, clock, shared: None },
            RetentionAge::For(0),
        )
    }

    #[test]
    fn directories_of_unknown_jobs_are_removed_and_other_names_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let mut cleaner = cleaner(home.path());
        let workspaces = Arc::clone(&cleaner.ports.workspaces);
        let gone = Workspace::of_job(UserId(1), JobId::from_bits(1));
        workspaces.make(&gone).unwrap();
        let other = workspaces.absolute(&gone).with_file_name("notes");
        std::fs::create_dir_all(workspaces.absolute(&gone).join("a/b")).unwrap();
        std::fs::create_dir(&other).unwrap();
        cleaner.compare(&AtomicBool::new(false));
        assert!(!workspaces.absolute(&gone).exists() && other.exists());
        assert_eq!(workspaces.job_workspaces(None), Ok(Vec::new()));
    }

    #[test]
    fn a_removal_that_a_crash_interrupted_is_finished() {
        let home = tempfile::tempdir().unwrap();
        let mut cleaner = cleaner(home.path());
        let job = Workspace::of_job(UserId(1), JobId::from_bits(3));
        let at = cleaner.ports.workspaces.absolute(&job);
        let half = at.with_file_name(".nanoclaw").join(format!("gone-{}", JobId::from_bits(3)));
        std::fs::create_dir_all(half.join("a")).unwrap();
        cleaner.compare(&AtomicBool::new(false));
        assert!(!half.exists());
    }

    /// A wall clock that a test sets ahead.
    struct JumpingClock(SystemClock, AtomicU64);

    impl Clock for JumpingClock {
        fn now_ms(&self) -> u64 {
            self.0.now_ms() + self.1.load(Ordering::SeqCst)
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.monotonic_ms()
        }
        fn sleep(&self, stop: &CancelToken, timeout: Duration) {
            self.0.sleep(stop, timeout);
        }
    }

    #[test]
    fn after_a_jump_of_the_clock_no_directory_counts_as_old() {
        let home = tempfile::tempdir().unwrap();
        let clock = Arc::new(JumpingClock(SystemClock::new(), AtomicU64::new(0)));
        let cleaner = cleaner_with(home.path(), Arc::clone(&clock) as _);
        assert!(cleaner.cutoff_ms().is_some());
        clock.1.store(2 * 3_600_000, Ordering::SeqCst);
        assert_eq!(cleaner.cutoff_ms(), None);
        assert_eq!(cleaner.cutoff_ms(), None, "for a day");
    }
}
