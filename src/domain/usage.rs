//! Token usage and its cost.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tokens used, as the provider reports them, or estimated where it reports none.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Prompt tokens, history included.
    pub prompt_tokens: u64,
    /// Completion tokens, thinking included.
    pub completion_tokens: u64,
    /// Total as the provider counts it, or the sum of both.
    pub total_tokens: u64,
    /// Prompt tokens that came from the provider's cache, where it reports them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_tokens: u64,
    /// Completion tokens of reasoning, where the provider reports them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// Cost in millionths of the currency of the prices; 0 without a price.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cost_micros: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Usage {
    /// Usage with the sum as its total.
    pub fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        let total_tokens = prompt_tokens.saturating_add(completion_tokens);
        Self { prompt_tokens, completion_tokens, total_tokens, ..Self::default() }
    }

    /// The same usage with its cost at this price.
    #[must_use]
    pub fn priced(self, price: Price) -> Self {
        let cost = |tokens: u64, micros: u64| u128::from(tokens).saturating_mul(u128::from(micros));
        let sum = cost(self.prompt_tokens, price.prompt_micros)
            .saturating_add(cost(self.completion_tokens, price.completion_micros));
        let cost_micros = u64::try_from(sum.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self { cost_micros, ..self }
    }

    /// The difference to an earlier usage.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.saturating_sub(earlier.prompt_tokens),
            completion_tokens: self.completion_tokens.saturating_sub(earlier.completion_tokens),
            total_tokens: self.total_tokens.saturating_sub(earlier.total_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_sub(earlier.reasoning_tokens),
            cost_micros: self.cost_micros.saturating_sub(earlier.cost_micros),
        }
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens = self.prompt_tokens.saturating_add(other.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(other.completion_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.reasoning_tokens = self.reasoning_tokens.saturating_add(other.reasoning_tokens);
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
    }
}

/// Price of a million tokens, in millionths of a currency that the operator chooses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Price {
    /// Prompt tokens.
    pub prompt_micros: u64,
    /// Completion tokens.
    pub completion_micros: u64,
}

/// Usage by model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UsageByModel(BTreeMap<String, Usage>);

impl UsageByModel {
    /// Adds usage of this model.
    pub fn add(&mut self, model: &str, usage: Usage) {
        match self.0.get_mut(model) {
            Some(sum) => *sum += usage,
            None if usage == Usage::default() => {}
            None => drop(self.0.insert(model.to_owned(), usage)),
        }
    }

    /// Whether nothing was used.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Usage of this model; `None` when it was never called.
    pub fn of(&self, model: &str) -> Option<Usage> {
        self.0.get(model).copied()
    }

    /// The difference to an earlier state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut rest = Self::default();
        for (model, usage) in self.entries() {
            rest.add(model, usage.since(earlier.of(model).unwrap_or_default()));
        }
        rest
    }

    /// Models with their usage, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.0.iter().map(|(model, usage)| (model.as_str(), *usage))
    }

    /// Sum over all models.
    pub fn total(&self) -> Usage {
        self.0.values().fold(Usage::default(), |mut sum, usage| {
            sum += *usage;
            sum
        })
    }
}

/// Usage of a group of jobs, such as those of a user or of a conversation, on all models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUsage<G> {
    /// The group.
    pub group: G,
    /// Tokens and cost.
    pub usage: Usage,
    /// Jobs that ended with usage.
    pub jobs: u64,
}

/// The groups that used most tokens, at most `limit`. It holds at most twice as many at a time.
#[derive(Debug)]
pub struct LargestGroups<G> {
    limit: usize,
    groups: Vec<GroupUsage<G>>,
    is_cut: bool,
}

impl<G: Ord> LargestGroups<G> {
    /// No group yet.
    pub fn new(limit: usize) -> Self {
        Self { limit, groups: Vec::new(), is_cut: false }
    }

    /// Adds a group. One that used nothing is left out.
    pub fn add(&mut self, group: GroupUsage<G>) {
        if group.usage == Usage::default() && group.jobs == 0 {
            return;
        }
        self.groups.push(group);
        if self.groups.len() >= self.limit.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        self.groups.sort_by(|a, b| {
            b.usage.total_tokens.cmp(&a.usage.total_tokens).then_with(|| a.group.cmp(&b.group))
        });
        self.is_cut |= self.groups.len() > self.limit;
        self.groups.truncate(self.limit);
    }

    /// The groups, the largest first, and whether smaller ones were left out.
    pub fn into_sorted(mut self) -> (Vec<GroupUsage<G>>, bool) {
        self.cut();
        (self.groups, self.is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::event::EngineMark;

    #[test]
    fn prices_are_per_million_tokens_and_costs_round_up() {
        let price = Price { prompt_micros: 270_000, completion_micros: 1_100_000 };
        assert_eq!(Usage::new(1_000_000, 500_000).priced(price).cost_micros, 270_000 + 550_000);
        assert_eq!(Usage::new(1, 0).priced(price).cost_micros, 1, "a started millionth counts");
        assert_eq!(Usage::new(u64::MAX, u64::MAX).priced(price).cost_micros, u64::MAX);
    }

    #[test]
    fn p8_the_largest_groups_are_kept_whatever_the_order_in_which_they_come() {
        let sorted = |tokens: &[u64]| {
            let mut groups = LargestGroups::new(2);
            for (group, tokens) in (0..).zip(tokens) {
                groups.add(GroupUsage { group, usage: Usage::new(*tokens, 0), jobs: 0 });
            }
            let (groups, is_cut) = groups.into_sorted();
            (groups.into_iter().map(|each: GroupUsage<u32>| each.group).collect::<Vec<_>>(), is_cut)
        };
        assert_eq!(sorted(&[1, 9, 3, 2, 8]), (vec![1, 4], true));
        assert_eq!(sorted(&[9, 8, 1, 1, 1, 1, 1]), (vec![0, 1], true));
        assert_eq!(sorted(&[5, 5]), (vec![0, 1], false), "equal ones have an order");
        assert_eq!(sorted(&[0, 7, 0]), (vec![1], false), "what used nothing is left out");
    }

    #[test]
    fn the_ledger_sums_usage_by_model() {
        let usage = Usage::new(1, 2);
        let mut ledger = UsageByModel::default();
        for model in [None, Some("b".to_owned())] {
            let mark = EngineMark::model_finished(crate::domain::event::FinishReason::Stop, usage, model);
            ledger.add_record(&mark.into(), "a");
        }
        ledger.add_record(&EngineMark::spent("a", usage).into(), "a");
        let entries: Vec<_> = ledger.entries().collect();
        assert_eq!(entries, [("a", Usage::new(2, 4)), ("b", usage)]);
        assert_eq!(ledger.total(), Usage::new(3, 6));
        let earlier = ledger.clone();
        assert!(ledger.since(&earlier).is_empty(), "what is booked is not booked again");
        ledger.add("b", usage);
        let rest = ledger.since(&earlier);
        assert_eq!(rest.entries().collect::<Vec<_>>(), [("b", usage)]);
        assert_eq!((rest.of("a"), rest.of("b")), (None, Some(usage)));
    }
}
