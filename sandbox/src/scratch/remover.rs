//! Removes private directories of ended runs in the background, one by one.
//!
//! One thread, started with the first directory and awaited when the sandbox is dropped. A run returns before
//! its directory is removed, so its contents cost neither the caller's time nor a slot.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::remove::remove_tree;

/// Only the first failures are stored.
const MAX_FAILURES: usize = 16;

/// How long a dropped sandbox waits for the removals: a disk may not answer.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(20);

type RemovalFailures = Arc<Mutex<Vec<String>>>;

/// Removes trees in order.
#[derive(Debug, Default)]
pub(crate) struct ScratchRemover {
    worker: Mutex<Option<RemoverThread>>,
    failures: RemovalFailures,
}

#[derive(Debug)]
struct RemoverThread {
    queue: Sender<PathBuf>,
    /// Disconnected when the thread ends.
    end: Receiver<()>,
}

impl ScratchRemover {
    /// Removes a tree later, or at once if no thread can start.
    pub(crate) fn take(&self, path: PathBuf) {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            *worker = start(&self.failures);
        }
        let refused = match worker.as_ref() {
            Some(worker) => worker.queue.send(path).err().map(|refused| refused.0),
            None => Some(path),
        };
        drop(worker);
        if let Some(path) = refused {
            empty(&path, &self.failures);
        }
    }

    /// The trees that could not be removed, with the cause.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ScratchRemover {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(RemoverThread { queue, end }) = worker {
            drop(queue);
            // The next start removes the rest.
            end.recv_timeout(REMOVAL_TIMEOUT).ok();
        }
    }
}

fn start(failures: &RemovalFailures) -> Option<RemoverThread> {
    let (queue, trash) = channel();
    let failures = Arc::clone(failures);
    let (ends_with_thread, end) = channel();
    let work = move || {
        empty_all(&trash, &failures);
        drop(ends_with_thread);
    };
    std::thread::Builder::new().name("sandbox-remover".to_owned()).spawn(work).ok()?;
    Some(RemoverThread { queue, end })
}

fn empty_all(trash: &Receiver<PathBuf>, failures: &RemovalFailures) {
    for path in trash {
        empty(&path, failures);
    }
}

fn empty(path: &Path, failures: &RemovalFailures) {
    if let Err(error) = remove_tree(path) {
        let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < MAX_FAILURES {
            failures.push(format!("cannot remove '{}': {error}", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_remover_waits_for_all_removals_and_keeps_failures() {
        let home = tempfile::tempdir().unwrap();
        let remover = ScratchRemover::default();
        for name in ["a", "b"] {
            std::fs::create_dir_all(home.path().join(name).join("x/y")).unwrap();
            remover.take(home.path().join(name));
        }
        remover.take(home.path().join("absent"));
        let failures = Arc::clone(&remover.failures);
        drop(remover);
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        let failures = failures.lock().unwrap();
        assert!(failures.len() == 1 && failures[0].contains("absent"), "{failures:?}");
    }
}
