//! Watches the directory that nodes share on a thread of its own: a network file system that does not answer
//! holds each thread that asks it, and must hold neither the writes of the store nor `/readyz`.

use super::shared_dir::{HINT, SharedDir};
use crate::ports::{CancelToken, Clock, DiskSpace, PartFault, ReadinessProbe, SharedDirState, SharedFiles};
use crate::store::disk_space;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a look may take before the directory counts as lost, milliseconds.
const SILENCE_MS: u64 = 10_000;

/// The directory, as the last look has found it.
pub(super) struct SharedDirWatch {
    dir: Arc<SharedDir>,
    clock: Arc<dyn Clock>,
    seen: Mutex<SeenDir>,
}

struct SeenDir {
    at_ms: u64,
    found: Result<(), String>,
    space: Option<DiskSpace>,
}

impl SharedDirWatch {
    /// Looks once, and then from time to time until nobody needs the watch. Without the setting no thread
    /// does.
    pub(super) fn start(dir: &Arc<SharedDir>, clock: &Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let watch = Arc::new(Self::new(Arc::clone(dir), Arc::clone(clock)));
        if dir.path().is_some() {
            let watched = Arc::downgrade(&watch);
            std::thread::Builder::new()
                .name("shared-dir".to_owned())
                .spawn(move || keep_looking(&watched))?;
        }
        Ok(watch)
    }

    /// Looks once.
    pub(super) fn new(dir: Arc<SharedDir>, clock: Arc<dyn Clock>) -> Self {
        let seen = Mutex::new(look(&dir, &*clock));
        Self { dir, clock, seen }
    }

    /// Looks again.
    pub(super) fn look(&self) {
        let seen = look(&self.dir, &*self.clock);
        *self.seen() = seen;
    }

    /// Fails while this node may not use the directory.
    pub(super) fn found(&self) -> Result<(), String> {
        let seen = self.seen();
        let silent_ms = self.clock.monotonic_ms().saturating_sub(seen.at_ms);
        if self.dir.path().is_some() && silent_ms > SILENCE_MS {
            let seconds = silent_ms / 1_000;
            return Err(format!(
                "store.shared_dir has not answered for {seconds} s, so this node takes no jobs; requests for \
                 projects and files wait"
            ));
        }
        seen.found.clone()
    }

    fn seen(&self) -> MutexGuard<'_, SeenDir> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(dir: &SharedDir, clock: &dyn Clock) -> SeenDir {
    let found = dir.check();
    let space = dir.path().filter(|_| found.is_ok()).and_then(disk_space);
    SeenDir { at_ms: clock.monotonic_ms(), found, space }
}

fn keep_looking(watched: &Weak<SharedDirWatch>) {
    while let Some(watch) = watched.upgrade() {
        watch.look();
        let clock = Arc::clone(&watch.clock);
        drop(watch);
        clock.sleep(&CancelToken::new(Arc::clone(&clock)), LOOK_EVERY);
    }
}

impl SharedDirState for SharedDirWatch {
    fn fault(&self) -> Option<String> {
        // A node without the setting runs jobs whose files it refuses.
        self.dir.path()?;
        self.found().err()
    }

    fn space(&self) -> Option<DiskSpace> {
        self.seen().space
    }
}

/// Never fails: other nodes run the jobs, and this one answers requests that need no files.
pub(super) struct FilesProbe(pub(super) Arc<SharedDirWatch>);

impl ReadinessProbe for FilesProbe {
    fn name(&self) -> &'static str {
        "files"
    }

    fn check(&self) -> Result<(), PartFault> {
        Ok(())
    }

    fn degradation(&self) -> Option<PartFault> {
        self.0.found().err().map(|reason| PartFault::new(reason, HINT))
    }

    fn is_off(&self) -> bool {
        true
    }
}
