//! Budget of tokens and cost that several model calls share.

use crate::domain::usage::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The remaining parts of a job's `max_total_tokens` and `max_cost_micros`. Clones share the counters; the
/// default has no limit.
#[derive(Debug, Clone, Default)]
pub struct ModelBudget {
    tokens: BudgetPart,
    cost_micros: BudgetPart,
}

#[derive(Debug, Clone, Default)]
struct BudgetPart {
    left: Option<u64>,
    spent: Arc<AtomicU64>,
}

impl BudgetPart {
    fn new(left: Option<u64>) -> Self {
        Self { left, spent: Arc::default() }
    }

    fn spend(&self, amount: u64) {
        self.spent.fetch_add(amount, Ordering::Relaxed);
    }

    fn is_used_up(&self) -> bool {
        self.left.is_some_and(|left| self.spent.load(Ordering::Relaxed) >= left)
    }
}

impl ModelBudget {
    /// A budget of so many tokens and millionths; `None` means no limit.
    pub fn new(tokens: Option<u64>, cost_micros: Option<u64>) -> Self {
        Self { tokens: BudgetPart::new(tokens), cost_micros: BudgetPart::new(cost_micros) }
    }

    /// Subtracts the usage of one model call.
    pub fn spend(&self, usage: Usage) {
        self.tokens.spend(usage.total_tokens);
        self.cost_micros.spend(usage.cost_micros);
    }

    /// The limit of the job that is used up, by its name.
    pub fn used_up(&self) -> Option<&'static str> {
        if self.tokens.is_used_up() {
            return Some("max_total_tokens");
        }
        self.cost_micros.is_used_up().then_some("max_cost_micros")
    }
}
