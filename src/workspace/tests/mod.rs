//! Fixture: a workspace in a temporary directory, with a canary file beside it that no call may reach.

mod escapes;
mod finding;
mod listing;
mod paths;
mod quotas;
mod races;
mod read_only;
mod searching;
mod sizes;
mod texts;
mod trees;
mod uploads;
mod users;
mod versions;

use super::HostFiles;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::limits::Limits;
use crate::domain::workspace::{UserDirectories, Workspace, WorkspaceId};
use crate::ports::{CancelToken, Clock, StorageAllowance, StorageScope, Workspaces};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Content of the canary. No result may contain it.
const SECRET: &str = "canary: sing to nobody";
/// An allowance that no test exceeds.
const UNLIMITED: StorageAllowance =
    StorageAllowance { bytes: u64::MAX, entries: 1_000_000, scope: StorageScope::Project };

/// The current time of these tests, in 2033.
const NOW_MS: u64 = 2_000_000_000_000;

/// A clock that advances by one step at each read.
#[derive(Default)]
pub(super) struct StepClock {
    step_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl Clock for StepClock {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }
    fn monotonic_ms(&self) -> u64 {
        self.monotonic_ms.fetch_add(self.step_ms.load(Ordering::SeqCst), Ordering::SeqCst)
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

struct Fixture {
    home: tempfile::TempDir,
    clock: Arc<StepClock>,
    files: HostFiles,
    project: Workspace,
}

impl Fixture {
    fn new() -> Self {
        Self::with(&Limits::default())
    }

    fn with(limits: &Limits) -> Self {
        // In memory, because each write is flushed.
        let memory = std::path::Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let home = tempfile::tempdir_in(parent).unwrap();
        fs::create_dir(home.path().join("outside")).unwrap();
        fs::write(home.path().join("outside/canary"), SECRET).unwrap();
        let clock = Arc::new(StepClock::default());
        let clock_for_files: Arc<dyn Clock> = Arc::<StepClock>::clone(&clock);
        let files = HostFiles::new(home.path().join("ws"), user_directories(), limits, clock_for_files);
        let project = project(1, "p");
        files.make(&project).unwrap();
        Self { home, clock, files, project }
    }

    fn outside(&self) -> PathBuf {
        self.home.path().join("outside")
    }

    /// Host path of the user's directory.
    fn user(&self) -> PathBuf {
        self.files.absolute(&self.project).parent().unwrap().to_owned()
    }

    /// Host path of a file of the project.
    fn at(&self, path: &str) -> PathBuf {
        self.files.absolute(&self.project).join(path)
    }

    /// Number of staged entries.
    fn staged_count(&self) -> usize {
        fs::read_dir(self.user().join(".nanoclaw")).map_or(0, Iterator::count)
    }

    /// The canary is unchanged, and no file was added beside it.
    fn assert_untouched(&self) {
        assert_eq!(fs::read_to_string(self.outside().join("canary")).unwrap(), SECRET);
        assert_eq!(fs::read_dir(self.outside()).unwrap().count(), 1);
    }
}

fn user_directories() -> UserDirectories {
    UserDirectories::new(&[7; 32])
}

fn project(id: u128, directory: &str) -> Workspace {
    Workspace {
        id: WorkspaceId::Project(ProjectId::from_bits(id)),
        user: UserId(1),
        directory: directory.to_owned(),
    }
}

/// Runs as an unprivileged user: `nobody` when the tests run as root. The ids change in this thread only.
fn as_unprivileged_user(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            work();
        });
    });
}
