//! The background remover: private directories of ended runs, renamed out of the way, are emptied one by one.
//!
//! Owns: one thread, started with the first piece of trash and joined when the sandbox goes. A run answers before its
//! directory is empty: what a guest left must cost neither its caller's time nor a place for another run.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::remove::remove_tree;

/// Failures kept for whoever asks: the first ones tell what is wrong.
const MAX_FAILURES: usize = 16;

type Failures = Arc<Mutex<Vec<String>>>;

/// Empties what it is given, in order.
#[derive(Debug, Default)]
pub(crate) struct Remover {
    worker: Mutex<Option<Worker>>,
    failures: Failures,
}

#[derive(Debug)]
struct Worker {
    queue: Sender<PathBuf>,
    thread: JoinHandle<()>,
}

impl Remover {
    /// Takes a tree over. Where no thread can be had the tree is removed at once.
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

    /// What could not be removed, in words: path and cause.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        let worker = self.worker.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { queue, thread }) = worker {
            drop(queue);
            // It never panics; if it did, the rest is swept at the next start.
            thread.join().ok();
        }
    }
}

fn start(failures: &Failures) -> Option<Worker> {
    let (queue, trash) = channel();
    let failures = Arc::clone(failures);
    let work = move || empty_all(&trash, &failures);
    let thread = std::thread::Builder::new().name("sandbox-remover".to_owned()).spawn(work).ok()?;
    Some(Worker { queue, thread })
}

fn empty_all(trash: &Receiver<PathBuf>, failures: &Failures) {
    for path in trash {
        empty(&path, failures);
    }
}

fn empty(path: &Path, failures: &Failures) {
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
    fn what_it_takes_is_gone_when_it_is_dropped_and_failures_are_told() {
        let home = tempfile::tempdir().unwrap();
        let remover = Remover::default();
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
