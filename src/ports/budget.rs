//! What is left of a job's limits, for calls that share them.

use crate::domain::job_rights::JobRights;
use crate::domain::usage::Usage;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The remaining parts of a job's `max_total_tokens`, `max_cost_micros` and `max_tool_calls`. Clones share
/// the counters; the default has no limit.
#[derive(Debug, Clone, Default)]
pub struct JobBudget {
    tokens: BudgetPart,
    cost_micros: BudgetPart,
    tool_calls: BudgetPart,
}

#[derive(Debug, Clone, Default)]
struct BudgetPart {
    limit: Option<u64>,
    spent: Arc<AtomicU64>,
}

impl BudgetPart {
    fn new(limit: Option<u64>) -> Self {
        Self { limit, spent: Arc::default() }
    }

    fn spend(&self, amount: u64) -> u64 {
        self.spent.fetch_add(amount, Ordering::Relaxed)
    }

    fn left(&self) -> Option<u64> {
        self.limit.map(|limit| limit.saturating_sub(self.spent.load(Ordering::Relaxed)))
    }
}

impl JobBudget {
    /// What these rights leave; `None` means no limit.
    pub fn new(tokens: Option<u64>, cost_micros: Option<u64>, tool_calls: Option<u64>) -> Self {
        let part = BudgetPart::new;
        Self { tokens: part(tokens), cost_micros: part(cost_micros), tool_calls: part(tool_calls) }
    }

    /// Subtracts the usage of one model call.
    pub fn spend(&self, usage: Usage) {
        self.tokens.spend(usage.total_tokens);
        self.cost_micros.spend(usage.cost_micros);
    }

    /// Takes one call of a tool; returns whether one was left.
    pub fn take_tool_call(&self) -> bool {
        let taken = self.tool_calls.spend(1);
        self.tool_calls.limit.is_none_or(|limit| taken < limit)
    }

    /// The limit of the job's model calls that is used up, by its name.
    pub fn used_up(&self) -> Option<&'static str> {
        let is_used_up = |part: &BudgetPart| part.left() == Some(0);
        if is_used_up(&self.tokens) {
            return Some("max_total_tokens");
        }
        is_used_up(&self.cost_micros).then_some("max_cost_micros")
    }

    /// These rights with what is left of their limits.
    pub fn left_of(&self, rights: JobRights) -> JobRights {
        let tool_calls = self.tool_calls.left().map(|left| u32::try_from(left).unwrap_or(u32::MAX));
        JobRights {
            max_total_tokens: self.tokens.left().or(rights.max_total_tokens),
            max_cost_micros: self.cost_micros.left().or(rights.max_cost_micros),
            max_tool_calls: tool_calls.or(rights.max_tool_calls),
            ..rights
        }
    }
}
