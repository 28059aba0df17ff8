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

pub(crate) use files::{Access, Domain, FileRule, Reach, SCOPE_ABI, build_ruleset, restrict};
pub(crate) use filter::{Filters, compile};
pub(crate) use rule::Profile;
