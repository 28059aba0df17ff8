//! What the calls of one batch may spend together. Owns their sum; refuses to know who spends.

use crate::domain::usage::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Of the job's `max_total_tokens`, what was left when the batch began. All clones are one budget; the default has no
/// bound.
#[derive(Debug, Clone, Default)]
pub struct TokenBudget {
    left: Option<u64>,
    spent: Arc<AtomicU64>,
}

impl TokenBudget {
    /// So many tokens; `None`: as many as it takes.
    pub fn new(left: Option<u64>) -> Self {
        Self { left, spent: Arc::default() }
    }

    /// Takes in what one call to a model has cost.
    pub fn spend(&self, usage: Usage) {
        self.spent.fetch_add(usage.total_tokens, Ordering::Relaxed);
    }

    /// Whether nothing is left.
    pub fn is_used_up(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }
}
