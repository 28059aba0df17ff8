//! The operator's skills: one thread looks at the directory, and jobs use what it found last. A directory
//! that hangs makes no job wait.

use super::scan::{RejectedSkill, SkillCache, SkillSet, scan};
use crate::ports::{CancelReason, CancelToken, Clock, FileError, ReadOnlyFiles};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The time between two scans.
const SCAN_PAUSE: Duration = Duration::from_secs(1);

/// The skills of the last scan of a directory.
pub(super) struct OperatorSkills {
    /// The directory as programs of jobs see it.
    path: PathBuf,
    files: Arc<dyn ReadOnlyFiles>,
    found: Arc<RwLock<Arc<SkillSet>>>,
    cancel: CancelToken,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl OperatorSkills {
    /// Scans the directory, which may not exist yet, now and from then on until this is dropped.
    pub(super) fn start(
        path: PathBuf,
        files: Arc<dyn ReadOnlyFiles>,
        clock: &Arc<dyn Clock>,
    ) -> io::Result<Self> {
        let (found, cancel) = (Arc::<RwLock<Arc<SkillSet>>>::default(), CancelToken::new(Arc::clone(clock)));
        let mut watcher = SkillWatcher {
            path: path.clone(),
            files: Arc::clone(&files),
            found: Arc::clone(&found),
            cache: SkillCache::default(),
            logged_error: None,
        };
        // The first job has them, too.
        watcher.scan();
        let (stop, clock) = (cancel.clone(), Arc::clone(clock));
        let watch = move || {
            while stop.reason().is_none() {
                clock.sleep(&stop, SCAN_PAUSE);
                watcher.scan();
            }
        };
        let thread = Builder::new().name("skills".to_owned()).spawn(watch)?;
        Ok(Self { path, files, found, cancel, thread: Mutex::new(Some(thread)) })
    }

    /// What the last scan found.
    pub(super) fn current(&self) -> Arc<SkillSet> {
        Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn files(&self) -> &dyn ReadOnlyFiles {
        self.files.as_ref()
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OperatorSkills {
    fn drop(&mut self) {
        self.cancel.cancel(CancelReason::Shutdown);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the watcher of the skills panicked");
        }
    }
}

/// Scans the directory and logs what has changed.
struct SkillWatcher {
    path: PathBuf,
    files: Arc<dyn ReadOnlyFiles>,
    found: Arc<RwLock<Arc<SkillSet>>>,
    cache: SkillCache,
    /// The last logged error of the directory.
    logged_error: Option<FileError>,
}

impl SkillWatcher {
    fn scan(&mut self) {
        let set = match scan(self.files.as_ref(), &mut self.cache) {
            Ok(set) => {
                self.logged_error = None;
                set
            }
            Err(error) => {
                if self.logged_error.as_ref() != Some(&error) {
                    tracing::warn!(dir = %self.path.display(), %error, "skills.dir cannot be used");
                    self.logged_error = Some(error);
                }
                SkillSet::default()
            }
        };
        let before = Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner));
        if *before == set {
            return;
        }
        for rejected in set.rejected.iter().filter(|rejected| !before.rejected.contains(rejected)) {
            let RejectedSkill { folder, error } = rejected;
            tracing::warn!(folder, %error, "folder of skills.dir skipped");
        }
        tracing::info!(skills = set.skills.len(), skipped = set.rejected.len(), "skills loaded");
        *self.found.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }
}
