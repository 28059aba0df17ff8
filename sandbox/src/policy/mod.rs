//! The kernel policy as data: which system calls and files each profile has, with a reason beside each rule.
//!
//! Owns: the tables, their compilation to BPF, the landlock rules. Refuses: to apply anything (see `child`).

mod allow;
mod files;
mod filter;
mod kill;
mod legacy;
mod numbers;
mod rule;

pub(crate) use files::{
    Access, Domain, FileRule, Reach, SCOPE_ABI, build_ruleset, restrict, restriction_number,
};
pub(crate) use filter::{Filters, compile};
#[cfg(feature = "ablation")]
pub(crate) use filter::{allowed_rules, killed_rules};
pub(crate) use rule::Profile;
#[cfg(feature = "ablation")]
pub(crate) use rule::{Outcome, Rule, Test};
