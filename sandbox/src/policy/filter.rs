//! Turns the tables into BPF programs.
//!
//! Owns: the order of the filters, and what seccompiler cannot say. The broker lives behind what is deadly for everybody,
//! and so does all that descends from it. A zygote gets the rest of the kill list without what it still needs; a child
//! gets the allow list, then the whole rest: it takes `seccomp` itself away and so comes last, and
//! the kernel heeds the most severe answer. seccompiler checks the architecture but not x32, and has one action per
//! filter; so x32 numbers and single answers (`ENOSYS`, pretended success) stand in a short hand-written prefix that
//! falls through into its program. BPF jumps are relative: the two join without changes.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use thiserror::Error;

use super::allow::{
    ALLOWED, ALLOWED_WITH_SIGNAL_SCOPE, ALLOWED_WITH_TRUNCATION, ALLOWED_WITHOUT_TRUNCATION,
    SIGNAL_SCOPE_ABI, TRUNCATION_ABI,
};
use super::kill::{KILLED, NEEDED_BY_ZYGOTE, NEEDED_FOR_SET_UP};
use super::legacy;
use super::rule::{For, Outcome, Profile, Rule, Test, number};

/// The audit architecture, as data.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
/// The audit architecture, as data.
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// The first system call number of the x32 ABI.
const FIRST_X32_NUMBER: u32 = 0x4000_0000;

const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// A table does not compile: a mistake of ours, found by the first run of any test.
#[derive(Debug, Error)]
#[error("cannot compile the system call filter: {0}")]
pub(crate) struct FilterError(#[from] seccompiler::BackendError);

/// The filters of one profile.
#[derive(Debug)]
pub(crate) struct Filters {
    /// Code's kill list without what the set-up of a zygote still needs. Holds from before its exec.
    pub early: BpfProgram,
    /// The kill list without what a warm zygote still needs: exec is over.
    pub zygote: BpfProgram,
    /// Allow list and whole kill list, in the order of their installation.
    pub last: [BpfProgram; 2],
}

/// Compiles what is deadly for everybody: the broker lives behind it, and every child inherits it.
pub(crate) fn compile_for_broker() -> Result<BpfProgram, FilterError> {
    let killed: Vec<&Rule> =
        KILLED.iter().chain(legacy::KILLED).filter(|rule| rule.whom == For::All).collect();
    let program = kill_program(&killed)?;
    #[cfg(feature = "ablation")]
    let program = crate::ablation::open_for_broker(program);
    Ok(program)
}

/// Compiles the rest of the tables for a profile under a kernel's landlock ABI.
pub(crate) fn compile(profile: Profile, landlock_abi: u32) -> Result<Filters, FilterError> {
    let killed: Vec<&Rule> = killed_rules(profile).into_iter().filter(|rule| rule.whom != For::All).collect();
    let without = |needed: &[&str]| -> Vec<&Rule> {
        killed.iter().copied().filter(|rule| !needed.contains(&rule.name)).collect()
    };
    // Code's kill list takes `seccomp` away, so it comes last and the allow list must let it in. A command's allow list
    // answers that there is no `seccomp`, so that one comes last.
    let is_code = For::Code.covers(profile);
    let allow = allow_program(&allowed_rules(profile, landlock_abi), is_code)?;
    let kill = kill_program(&killed)?;
    let filters = Filters {
        early: kill_program(&without(NEEDED_FOR_SET_UP))?,
        zygote: kill_program(&without(NEEDED_BY_ZYGOTE))?,
        last: if is_code { [allow, kill] } else { [kill, allow] },
    };
    #[cfg(feature = "ablation")]
    let filters = crate::ablation::open(filters);
    Ok(filters)
}

/// The rows of the kill list that hold for a profile.
pub(crate) fn killed_rules(profile: Profile) -> Vec<&'static Rule> {
    KILLED.iter().chain(legacy::KILLED).filter(|rule| rule.whom.covers(profile)).collect()
}

/// The rows of the allow list that hold for a profile.
pub(crate) fn allowed_rules(profile: Profile, landlock_abi: u32) -> Vec<&'static Rule> {
    let scoped: &[Rule] = if landlock_abi >= SIGNAL_SCOPE_ABI { ALLOWED_WITH_SIGNAL_SCOPE } else { &[] };
    let truncating =
        if landlock_abi >= TRUNCATION_ABI { ALLOWED_WITH_TRUNCATION } else { ALLOWED_WITHOUT_TRUNCATION };
    ALLOWED
        .iter()
        .chain(legacy::ALLOWED)
        .chain(scoped)
        .chain(truncating)
        .filter(|rule| rule.whom.covers(profile))
        .collect()
}

fn kill_program(rules: &[&Rule]) -> Result<BpfProgram, FilterError> {
    let deadly = rules.iter().map(|rule| (rule.number, Vec::new())).collect();
    let filter = SeccompFilter::new(deadly, SeccompAction::Allow, SeccompAction::KillProcess, ARCHITECTURE)?;
    let mut program = vec![
        LOAD_NUMBER,
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_X32_NUMBER },
        answer(SeccompAction::KillProcess),
    ];
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

fn allow_program(rules: &[&Rule], lets_seccomp: bool) -> Result<BpfProgram, FilterError> {
    let mut program = vec![LOAD_NUMBER];
    let mut allowed = BTreeMap::new();
    if lets_seccomp {
        allowed.insert(number!(seccomp), Vec::new());
    }
    for rule in rules {
        match rule.outcome {
            Outcome::Allow => drop(allowed.insert(rule.number, Vec::new())),
            Outcome::AllowIf(ways) => drop(allowed.insert(rule.number, conditions(ways)?)),
            Outcome::Answer(errno) => {
                let number = u32::try_from(rule.number).unwrap_or(u32::MAX);
                program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: number });
                program.push(answer(SeccompAction::Errno(errno.unsigned_abs())));
            }
        }
    }
    let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = SeccompFilter::new(allowed, denied, SeccompAction::Allow, ARCHITECTURE)?;
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

fn answer(action: SeccompAction) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: u32::from(action) }
}

fn conditions(ways: &[&[Test]]) -> Result<Vec<SeccompRule>, FilterError> {
    let mut rules = Vec::with_capacity(ways.len());
    for way in ways {
        let tests: Result<Vec<_>, _> = way.iter().map(condition).collect();
        rules.push(SeccompRule::new(tests?)?);
    }
    Ok(rules)
}

fn condition(test: &Test) -> Result<SeccompCondition, seccompiler::BackendError> {
    if test.mask == u64::MAX {
        SeccompCondition::new(test.argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, test.value)
    } else {
        let masked = SeccompCmpOp::MaskedEq(test.mask);
        SeccompCondition::new(test.argument, SeccompCmpArgLen::Dword, masked, test.value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_rule_has_a_reason_and_no_call_is_both_killed_and_allowed() {
        for profile in Profile::ALL {
            let killed = killed_rules(profile);
            assert!(killed.iter().all(|rule| !rule.because.is_empty()));
            let killed: BTreeSet<_> = killed.iter().map(|rule| rule.name).collect();
            for rule in allowed_rules(profile, 7) {
                assert!(!rule.because.is_empty(), "{} has no reason", rule.name);
                assert!(!killed.contains(rule.name), "{} is killed and allowed", rule.name);
            }
        }
    }

    #[test]
    fn a_call_stands_once_in_a_profile() {
        for (profile, abi) in Profile::ALL.into_iter().flat_map(|profile| [(profile, 7), (profile, 1)]) {
            let mut seen = BTreeSet::new();
            for rule in allowed_rules(profile, abi) {
                assert!(seen.insert(rule.name), "{} stands twice for {profile:?}", rule.name);
            }
        }
    }

    #[test]
    fn the_filters_fit_the_kernel() {
        for profile in Profile::ALL {
            let filters = compile(profile, 7).unwrap();
            for program in [&filters.early, &filters.zygote].into_iter().chain(&filters.last) {
                assert!(program.len() < 4096);
            }
        }
    }

    /// Filters cannot be taken off again: the test starts itself once more and closes that process.
    #[test]
    fn a_thread_started_before_is_held() {
        const HELD: i32 = 23;
        const MARKER: &str = "NANOCLAW_SANDBOX_CLOSES_ITSELF";
        if std::env::var_os(MARKER).is_some() {
            let (closed, is_closed) = std::sync::mpsc::channel();
            // A thread's start needs calls of its own.
            let (started, has_started) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                let could_before = crate::sys::attempt::socket().is_ok();
                started.send(()).unwrap();
                is_closed.recv().unwrap();
                let could_after = crate::sys::attempt::socket().is_ok();
                crate::sys::exit_now(if could_before && !could_after { HELD } else { 1 })
            });
            has_started.recv().unwrap();
            rustix::thread::set_no_new_privs(true).unwrap();
            let filters = compile(Profile::Confined, 7).unwrap();
            filters.last.iter().for_each(|program| crate::sys::install_filter(program).unwrap());
            closed.send(()).unwrap();
            thread.join().unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "policy::filter::tests::a_thread_started_before_is_held"])
            .env(MARKER, "1")
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(HELD), "{status}");
    }

    #[test]
    fn signals_need_the_scope() {
        let has = |profile, abi, name| allowed_rules(profile, abi).iter().any(|rule| rule.name == name);
        assert!(has(Profile::Roomy, 6, "tgkill") && !has(Profile::Roomy, 5, "tgkill"));
        assert!(has(Profile::Shell, 6, "kill") && !has(Profile::Shell, 5, "kill"));
    }

    #[test]
    fn what_the_set_up_needs_is_killed_at_the_end() {
        let killed: Vec<_> = KILLED.iter().map(|rule| rule.name).collect();
        assert!(NEEDED_FOR_SET_UP.iter().chain(NEEDED_BY_ZYGOTE).all(|name| killed.contains(name)));
    }
}
