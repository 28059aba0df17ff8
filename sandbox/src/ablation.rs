//! What this crate's own tests need to see that the policy has teeth. Built with the feature `ablation` alone.
//!
//! Owns: a process that lives without one layer, the tables as plain data, calls by their raw numbers. Refuses: to take a
//! layer away on anybody's order: only the first line of a binary's `main` can, and the product's has no such line.

use std::io::Write;
use std::sync::OnceLock;

use seccompiler::sock_filter;

use crate::policy::{Filters, Outcome, Profile, Rule, allowed_rules, killed_rules};
use crate::sys;

/// One of the two layers that the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Files, TCP, signals.
    Landlock,
    /// System calls.
    Seccomp,
}

static MISSING: OnceLock<Layer> = OnceLock::new();

/// A call that does nothing and answers no error: what is made in place of a restriction.
pub(crate) const IDLE_CALL: i64 = libc::SYS_getpid;

/// Has this process and all its descendants live without a layer. To be called before [`child_hook`](crate::child_hook).
pub fn live_without(layer: Layer) {
    MISSING.get_or_init(|| layer);
}

/// Whether this process does.
pub(crate) fn lacks(layer: Layer) -> bool {
    MISSING.get() == Some(&layer)
}

/// The filters, or programs without any effect in their place if that layer is missing.
pub(crate) fn open(filters: Filters) -> Filters {
    if !lacks(Layer::Seccomp) {
        return filters;
    }
    let idle = || vec![instruction(RETURN, 0, 0, ALLOW)];
    // A zygote's child asks whether its filters hold before it runs anything: this one call must fail.
    let number = u32::try_from(libc::SYS_prctl).unwrap_or(u32::MAX);
    let answers = vec![
        instruction(LOAD, 0, 0, 0),
        instruction(JUMP_IF_EQUAL, 0, 3, number),
        instruction(LOAD, 0, 0, FIRST_ARGUMENT),
        instruction(JUMP_IF_EQUAL, 0, 1, PR_GET_DUMPABLE),
        instruction(RETURN, 0, 0, REFUSE_WITH_EPERM),
        instruction(RETURN, 0, 0, ALLOW),
    ];
    Filters { early: idle(), zygote: idle(), last: [idle(), answers] }
}

/// Likewise the broker's.
pub(crate) fn open_for_broker(program: Vec<sock_filter>) -> Vec<sock_filter> {
    if lacks(Layer::Seccomp) { vec![instruction(RETURN, 0, 0, ALLOW)] } else { program }
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const REFUSE_WITH_EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
const PR_GET_DUMPABLE: u32 = libc::PR_GET_DUMPABLE.unsigned_abs();
/// Where the lower half of the first argument lies in what a filter sees, on little-endian machines.
const FIRST_ARGUMENT: u32 = 16;

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// In a probe's child: makes the calls, a line for each answer. What is missing was never answered.
pub(crate) fn make_calls(calls: &[[u64; 7]]) -> i32 {
    for call in calls {
        let line = format!("{}\n", sys::attempt::call(*call));
        // Without standard output the test misses its lines.
        std::io::stdout().write_all(line.as_bytes()).ok();
    }
    0
}

/// What a profile's policy says about system calls.
#[derive(Clone, Debug)]
pub struct Table {
    /// The profile's name.
    pub profile: String,
    /// Every call that it names; all others are refused.
    pub rows: Vec<Row>,
}

/// What it says about one.
#[derive(Clone, Debug)]
pub struct Row {
    /// The call's name.
    pub name: &'static str,
    /// Its number.
    pub number: i64,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ends the process.
    Killed,
    /// It is made.
    Allowed,
    /// It is made if one of the lists holds wholly, else refused.
    AllowedIf(Vec<Vec<Condition>>),
    /// It is not made, and answered with this error, or success.
    Answered(i32),
}

/// The argument's bits under the mask must equal the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Which, from 0.
    pub argument: usize,
    /// Which bits.
    pub mask: u64,
    /// What they must be.
    pub value: u64,
}

/// The tables of all profiles under a kernel's landlock ABI.
pub fn tables(landlock_abi: u32) -> Vec<Table> {
    let table = |profile: Profile| {
        let killed = killed_rules(profile).into_iter().map(|rule| row(rule, Fate::Killed));
        let allowed = allowed_rules(profile, landlock_abi).into_iter().map(|rule| row(rule, fate(rule)));
        Table { profile: format!("{profile:?}").to_lowercase(), rows: killed.chain(allowed).collect() }
    };
    Profile::ALL.into_iter().map(table).collect()
}

fn row(rule: &Rule, fate: Fate) -> Row {
    Row { name: rule.name, number: rule.number, fate }
}

fn fate(rule: &Rule) -> Fate {
    match rule.outcome {
        Outcome::Allow => Fate::Allowed,
        Outcome::Answer(errno) => Fate::Answered(errno),
        Outcome::AllowIf(ways) => {
            let condition = |test: &crate::policy::Test| Condition {
                argument: test.argument.into(),
                mask: test.mask,
                value: test.value,
            };
            Fate::AllowedIf(ways.iter().map(|way| way.iter().map(condition).collect()).collect())
        }
    }
}
