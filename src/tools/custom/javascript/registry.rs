//! The tools of the last scan, and their version.

use crate::ports::Tool;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(super) struct JavaScriptRegistry {
    version: AtomicU64,
    tools: Mutex<Arc<Vec<Arc<dyn Tool>>>>,
    filled: (Mutex<bool>, Condvar),
}

impl JavaScriptRegistry {
    /// Replaces the tools.
    pub(super) fn put(&self, tools: Vec<Arc<dyn Tool>>) {
        *self.tools.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(tools);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Rises with every change.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(super) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let tools = Arc::clone(&self.tools.lock().unwrap_or_else(PoisonError::into_inner));
        tools.to_vec()
    }

    /// Reports the end of the first scan.
    pub(super) fn set_filled(&self) {
        let (is_filled, changed) = &self.filled;
        *is_filled.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits for the end of the first scan, at most `timeout`.
    pub(super) fn wait_until_filled(&self, timeout: Duration) {
        let (is_filled, changed) = &self.filled;
        let guard = is_filled.lock().unwrap_or_else(PoisonError::into_inner);
        // After a timeout, the tools found so far are used.
        drop(changed.wait_timeout_while(guard, timeout, |is_filled| !*is_filled));
    }
}
