//! What the agents of one call may spend together. Owns their sum; refuses to know who spends.

use crate::domain::usage::Usage;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the job's `max_total_tokens`, what was left when the call began.
#[derive(Debug)]
pub(super) struct Budget {
    left: Option<u64>,
    spent: AtomicU64,
}

impl Budget {
    pub(super) fn new(left: Option<u64>) -> Self {
        Self { left, spent: AtomicU64::new(0) }
    }

    /// Takes in what one call to a model has cost.
    pub(super) fn spend(&self, usage: Usage) {
        self.spent.fetch_add(usage.total_tokens, Ordering::Relaxed);
    }

    /// Whether nothing is left.
    pub(super) fn is_used_up(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }
}
