//! Token budget that several model calls share.

use crate::domain::usage::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The remaining part of a job's `max_total_tokens`. Clones share one counter; the default has no limit.
#[derive(Debug, Clone, Default)]
pub struct TokenBudget {
    left: Option<u64>,
    spent: Arc<AtomicU64>,
}

impl TokenBudget {
    /// A budget of `left` tokens; `None` means no limit.
    pub fn new(left: Option<u64>) -> Self {
        Self { left, spent: Arc::default() }
    }

    /// Subtracts the usage of one model call.
    pub fn spend(&self, usage: Usage) {
        self.spent.fetch_add(usage.total_tokens, Ordering::Relaxed);
    }

    /// Whether the budget is used up.
    pub fn is_used_up(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }
}
