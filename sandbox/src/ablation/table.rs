//! The policy tables as plain data.

use crate::policy::{ArgumentTest, CallAction, FilterProfile, SyscallRule, allowed_rules, killed_rules};

/// The rules of one profile.
#[derive(Clone, Debug)]
pub struct PolicyTable {
    /// The profile's name in lower case.
    pub profile: String,
    /// One row per call that has a rule; every other call fails with EPERM.
    pub rows: Vec<PolicyRow>,
}

/// The rule of one call.
#[derive(Clone, Debug)]
pub struct PolicyRow {
    /// The call's name.
    pub name: &'static str,
    /// The call's number on this architecture.
    pub number: i64,
    /// The filters' action for it.
    pub action: PolicyAction,
}

/// The filters' action for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyAction {
    /// The call ends the process.
    Killed,
    /// The call runs.
    Allowed,
    /// The call runs if all conditions of one list hold; otherwise it fails with EPERM.
    AllowedIf(Vec<Vec<ArgumentCondition>>),
    /// The call does not run and returns this error number; 0 is success.
    Answered(i32),
}

/// The argument's bits under the mask must equal the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentCondition {
    /// Index of the argument, from 0.
    pub argument: usize,
    /// The bits to compare.
    pub mask: u64,
    /// Their expected value.
    pub value: u64,
}

/// The tables of all profiles for a kernel with this landlock ABI.
pub fn tables(landlock_abi: u32) -> Vec<PolicyTable> {
    let table = |profile: FilterProfile| {
        let killed = killed_rules(profile).into_iter().map(|rule| row(rule, PolicyAction::Killed));
        let allowed = allowed_rules(profile, landlock_abi).into_iter().map(|rule| row(rule, action_of(rule)));
        PolicyTable { profile: format!("{profile:?}").to_lowercase(), rows: killed.chain(allowed).collect() }
    };
    FilterProfile::ALL.into_iter().map(table).collect()
}

fn row(rule: &SyscallRule, action: PolicyAction) -> PolicyRow {
    PolicyRow { name: rule.name, number: rule.number, action }
}

fn action_of(rule: &SyscallRule) -> PolicyAction {
    match rule.action {
        CallAction::Allow => PolicyAction::Allowed,
        CallAction::Answer(errno) => PolicyAction::Answered(errno),
        // The children of the tests have no supervisor.
        CallAction::Supervised => PolicyAction::Answered(libc::EPERM),
        CallAction::AllowIf(alternatives) => {
            let condition = |test: &ArgumentTest| ArgumentCondition {
                argument: test.argument.into(),
                mask: test.mask,
                value: test.value,
            };
            let lists = alternatives.iter().map(|tests| tests.iter().map(condition).collect());
            PolicyAction::AllowedIf(lists.collect())
        }
    }
}
