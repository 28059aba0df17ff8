//! The versions of files that a job's model has seen. They come from the job's log, so that they survive a
//! restart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A file and its content as the model has seen it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    /// Path below the workspace.
    pub path: String,
    /// Digest of the content.
    pub version: String,
}

/// The files that a model has seen, shared by the calls of a batch.
#[derive(Debug, Clone, Default)]
pub struct SeenFiles {
    versions: Arc<Mutex<BTreeMap<String, String>>>,
    /// What this call has recorded.
    recorded: Arc<Mutex<Vec<SeenFile>>>,
}

impl SeenFiles {
    /// The files that the log of a job names.
    pub fn of(versions: BTreeMap<String, String>) -> Self {
        Self { versions: Arc::new(Mutex::new(versions)), recorded: Arc::default() }
    }

    /// The same files for one call, which records its own.
    #[must_use]
    pub fn for_call(&self) -> Self {
        Self { versions: Arc::clone(&self.versions), recorded: Arc::default() }
    }

    /// The version that the model has seen last; `None` if it has not seen the file.
    pub fn version(&self, path: &str) -> Option<String> {
        lock(&self.versions).get(path).cloned()
    }

    /// Records that the model has seen this version.
    pub fn record(&self, path: &str, version: String) {
        lock(&self.versions).insert(path.to_owned(), version.clone());
        lock(&self.recorded).push(SeenFile { path: path.to_owned(), version });
    }

    /// What the call has recorded; empties the list.
    pub fn take_recorded(&self) -> Vec<SeenFile> {
        std::mem::take(&mut *lock(&self.recorded))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
