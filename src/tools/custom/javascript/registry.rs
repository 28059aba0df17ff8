//! The tools that the watcher found last, and their version.

use crate::ports::Tool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Tools and the number of their changes.
#[derive(Default)]
pub(super) struct JavaScriptRegistry {
    version: AtomicU64,
    tools: Mutex<Arc<Vec<Arc<dyn Tool>>>>,
    filled: (Mutex<bool>, Condvar),
}

impl JavaScriptRegistry {
    /// These are the tools now.
    pub(super) fn put(&self, tools: Vec<Arc<dyn Tool>>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Rises with every change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The tools of now.
    pub(super) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let tools = Arc::clone(&self.tools.lock().unwrap_or_else(PoisonError::into_inner));
        tools.to_vec()
    }

    /// The whole directory has been looked at.
    pub(super) fn has_been_filled(&self) {
        let (is_filled, bell) = &self.filled;
        *is_filled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        bell.notify_all();
    }

    /// Waits for that, but no longer than this.
    pub(super) fn wait_until_filled(&self, patience: Duration) {
        let (is_filled, bell) = &self.filled;
        let guard = is_filled.lock().unwrap_or_else(PoisonError::into_inner);
        // What there is by then is what there is.
        drop(bell.wait_timeout_while(guard, patience, |is_filled| !*is_filled));
    }
}
