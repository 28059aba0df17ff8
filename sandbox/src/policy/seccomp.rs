//! Compiles the tables into BPF programs and installs them.
//!
//! Order of the filters: the broker installs the part of the kill list that holds for every profile, and
//! every child inherits it. A zygote adds the rest of the kill list without the calls that it still needs. A
//! child adds the allow list and the complete kill list. The kernel applies the most severe answer of all
//! filters.
//!
//! seccompiler checks the architecture but not x32 numbers, and has one action per filter. A short
//! hand-written prefix handles x32 numbers and single answers (`ENOSYS`, success). BPF jumps are relative, so
//! the prefix and the compiled program join without changes.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use thiserror::Error;

use super::allow_list::{
    ALLOWED, ALLOWED_WITH_SIGNAL_SCOPE, ALLOWED_WITH_TRUNCATION, ALLOWED_WITHOUT_TRUNCATION, O_TMPFILE,
    SIGNAL_SCOPE_ABI, TRUNCATION_ABI,
};
use super::kill_list::{KILLED, NEEDED_BY_ZYGOTE, NEEDED_FOR_SET_UP};
use super::rule::{ArgumentTest, CallAction, FilterProfile, RuleScope, SyscallRule};
use super::x86_64;
use crate::sys;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: TargetArch = TargetArch::aarch64;

/// The first system call number of the x32 ABI.
const FIRST_X32_NUMBER: u32 = 0x4000_0000;

const LOAD_NUMBER: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 };
/// The lower 32 bits of the third argument.
const LOAD_THIRD_ARGUMENT: sock_filter = sock_filter { code: 0x20, jt: 0, jf: 0, k: 32 };
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_SET: u16 = 0x45;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// A table does not compile. This is a programming error that the first run of any test finds.
#[derive(Debug, Error)]
#[error("cannot compile the system call filter: {0}")]
pub(crate) struct FilterError(#[from] seccompiler::BackendError);

/// The filters of one profile.
#[derive(Debug)]
pub(crate) struct SeccompFilters {
    /// The kill list without the calls that the set-up of a zygote needs. In force before its exec.
    pub early: BpfProgram,
    /// The kill list without the calls that a warm zygote needs. In force once the interpreter is warm.
    pub zygote: BpfProgram,
    /// The supervised calls, if the profile has any.
    pub supervised: Option<SupervisedCalls>,
    /// Allow list and complete kill list, in the order of installation.
    pub last: [BpfProgram; 2],
}

/// Two filters for the calls that a supervisor makes in place of its command. The allow list allows them,
/// so one of the two must be in force.
#[derive(Debug)]
pub(crate) struct SupervisedCalls {
    /// Sends them to the supervisor.
    pub ask: BpfProgram,
    /// Refuses them with EPERM.
    pub refuse: BpfProgram,
}

impl SeccompFilters {
    /// Installs the last filters permanently; supervised calls are refused. From here on the whole policy is
    /// in force.
    pub(crate) fn install_last(&self) -> Result<(), String> {
        if let Some(calls) = &self.supervised {
            install("supervised calls", &calls.refuse)?;
        }
        self.install_lists()
    }

    /// The filter of the supervised calls, and the descriptor from which a supervisor receives them. They are
    /// refused where the kernel gives none: at most one filter of a process may have one.
    pub(crate) fn install_supervised(&self) -> Result<Option<OwnedFd>, String> {
        let Some(calls) = &self.supervised else { return Ok(None) };
        match sys::install_asking_filter(&calls.ask) {
            Ok(listener) => Ok(Some(listener)),
            Err(_) => install("supervised calls", &calls.refuse).map(|()| None),
        }
    }

    /// The filters behind [`Self::install_supervised`]. From here on the whole policy is in force.
    pub(crate) fn install_lists(&self) -> Result<(), String> {
        self.last.iter().try_for_each(|program| install("last filters", program))
    }
}

/// Installs one filter permanently. No-new-privs must be set.
pub(crate) fn install(name: &str, program: &[sock_filter]) -> Result<(), String> {
    sys::install_filter(program).map_err(|error| format!("seccomp {name}: {error}"))
}

/// Compiles the kill rules that hold for every profile. The broker installs them, and every child inherits
/// them.
pub(crate) fn compile_for_broker() -> Result<BpfProgram, FilterError> {
    let killed: Vec<&SyscallRule> =
        KILLED.iter().chain(x86_64::KILLED).filter(|rule| rule.scope == RuleScope::All).collect();
    #[cfg(feature = "ablation")]
    if let Some([idle, _]) = crate::ablation::replacement_filters() {
        return Ok(idle);
    }
    kill_program(&killed)
}

/// Compiles the other rules of a profile for a kernel with this landlock ABI.
pub(crate) fn compile(profile: FilterProfile, landlock_abi: u32) -> Result<SeccompFilters, FilterError> {
    let killed: Vec<&SyscallRule> =
        killed_rules(profile).into_iter().filter(|rule| rule.scope != RuleScope::All).collect();
    let without = |needed: &[&str]| -> Vec<&SyscallRule> {
        killed.iter().copied().filter(|rule| !needed.contains(&rule.name)).collect()
    };
    // The kill list of code kills `seccomp`: it is installed last, and the allow list must permit the call
    // until then. The allow list of commands answers `seccomp` with ENOSYS: it is installed last.
    let is_code = RuleScope::Code.covers(profile);
    let allowed = allowed_rules(profile, landlock_abi);
    let allow = allow_program(&allowed, is_code)?;
    let kill = kill_program(&killed)?;
    #[cfg(feature = "ablation")]
    if let Some([idle, answers]) = crate::ablation::replacement_filters() {
        let (early, zygote) = (idle.clone(), idle.clone());
        return Ok(SeccompFilters { early, zygote, supervised: None, last: [idle, answers] });
    }
    Ok(SeccompFilters {
        supervised: supervised_calls(&allowed),
        early: kill_program(&without(NEEDED_FOR_SET_UP))?,
        zygote: kill_program(&without(NEEDED_BY_ZYGOTE))?,
        last: if is_code { [allow, kill] } else { [kill, allow] },
    })
}

/// The rules of the kill list for a profile.
pub(crate) fn killed_rules(profile: FilterProfile) -> Vec<&'static SyscallRule> {
    KILLED.iter().chain(x86_64::KILLED).filter(|rule| rule.scope.covers(profile)).collect()
}

/// The rules of the allow list for a profile.
pub(crate) fn allowed_rules(profile: FilterProfile, landlock_abi: u32) -> Vec<&'static SyscallRule> {
    let scoped: &[SyscallRule] =
        if landlock_abi >= SIGNAL_SCOPE_ABI { ALLOWED_WITH_SIGNAL_SCOPE } else { &[] };
    let truncating =
        if landlock_abi >= TRUNCATION_ABI { ALLOWED_WITH_TRUNCATION } else { ALLOWED_WITHOUT_TRUNCATION };
    ALLOWED
        .iter()
        .chain(x86_64::ALLOWED)
        .chain(scoped)
        .chain(truncating)
        .filter(|rule| rule.scope.covers(profile))
        .collect()
}

fn kill_program(rules: &[&SyscallRule]) -> Result<BpfProgram, FilterError> {
    let killed = rules.iter().map(|rule| (rule.number, Vec::new())).collect();
    let filter = SeccompFilter::new(killed, SeccompAction::Allow, SeccompAction::KillProcess, ARCHITECTURE)?;
    let mut program = vec![
        LOAD_NUMBER,
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: FIRST_X32_NUMBER },
        answer(SeccompAction::KillProcess),
    ];
    program.extend(BpfProgram::try_from(filter)?);
    Ok(program)
}

fn allow_program(rules: &[&SyscallRule], allows_seccomp: bool) -> Result<BpfProgram, FilterError> {
    let mut program = vec![LOAD_NUMBER];
    program.extend(nameless_files());
    let mut allowed = BTreeMap::new();
    if allows_seccomp {
        allowed.insert(libc::SYS_seccomp, Vec::new());
    }
    for rule in rules {
        match rule.action {
            // The filters of supervised calls decide on these.
            CallAction::Allow | CallAction::Supervised => drop(allowed.insert(rule.number, Vec::new())),
            CallAction::AllowIf(alternatives) => drop(allowed.insert(rule.number, conditions(alternatives)?)),
            CallAction::Answer(errno) => {
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

/// `openat` with `O_TMPFILE` fails as on a file system without such files: programs continue with a name.
fn nameless_files() -> [sock_filter; 5] {
    let number = u32::try_from(libc::SYS_openat).unwrap_or(u32::MAX);
    [
        sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 4, k: number },
        LOAD_THIRD_ARGUMENT,
        sock_filter { code: JUMP_IF_SET, jt: 0, jf: 1, k: O_TMPFILE },
        answer(SeccompAction::Errno(libc::EOPNOTSUPP.unsigned_abs())),
        LOAD_NUMBER,
    ]
}

fn supervised_calls(rules: &[&SyscallRule]) -> Option<SupervisedCalls> {
    let supervised = rules.iter().filter(|rule| rule.action == CallAction::Supervised);
    let numbers: Vec<u32> = supervised.filter_map(|rule| u32::try_from(rule.number).ok()).collect();
    let refuse = u32::from(SeccompAction::Errno(libc::EPERM.unsigned_abs()));
    (!numbers.is_empty()).then(|| SupervisedCalls {
        ask: returning(&numbers, libc::SECCOMP_RET_USER_NOTIF),
        refuse: returning(&numbers, refuse),
    })
}

/// A filter that returns `action` for these numbers and allows all others. The filters after it check the
/// architecture: their answer is more severe.
fn returning(numbers: &[u32], action: u32) -> BpfProgram {
    let mut program = vec![LOAD_NUMBER];
    for number in numbers {
        program.push(sock_filter { code: JUMP_IF_EQUAL, jt: 0, jf: 1, k: *number });
        program.push(sock_filter { code: RETURN, jt: 0, jf: 0, k: action });
    }
    program.push(answer(SeccompAction::Allow));
    program
}

fn answer(action: SeccompAction) -> sock_filter {
    sock_filter { code: RETURN, jt: 0, jf: 0, k: u32::from(action) }
}

fn conditions(alternatives: &[&[ArgumentTest]]) -> Result<Vec<SeccompRule>, FilterError> {
    let mut rules = Vec::with_capacity(alternatives.len());
    for tests in alternatives {
        let tests: Result<Vec<_>, _> = tests.iter().map(condition).collect();
        rules.push(SeccompRule::new(tests?)?);
    }
    Ok(rules)
}

fn condition(test: &ArgumentTest) -> Result<SeccompCondition, seccompiler::BackendError> {
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
        for profile in FilterProfile::ALL {
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
    fn a_system_call_appears_once_in_a_profile() {
        for (profile, abi) in FilterProfile::ALL.into_iter().flat_map(|profile| [(profile, 7), (profile, 1)])
        {
            let mut seen = BTreeSet::new();
            for rule in allowed_rules(profile, abi) {
                assert!(seen.insert(rule.name), "{} stands twice for {profile:?}", rule.name);
            }
        }
    }

    #[test]
    fn the_filters_are_within_the_size_limit_of_the_kernel() {
        for profile in FilterProfile::ALL {
            let filters = compile(profile, 7).unwrap();
            let supervised = filters.supervised.iter().flat_map(|calls| [&calls.ask, &calls.refuse]);
            for program in
                [&filters.early, &filters.zygote].into_iter().chain(supervised).chain(&filters.last)
            {
                assert!(program.len() < 4096);
            }
        }
    }

    /// Filters cannot be removed: the test starts itself again and confines that process.
    #[test]
    fn a_thread_started_before_is_confined() {
        const CONFINED: i32 = 23;
        const MARKER: &str = "NANOCLAW_SANDBOX_CLOSES_ITSELF";
        if std::env::var_os(MARKER).is_some() {
            let (closed, is_closed) = std::sync::mpsc::channel();
            // Starting a thread needs calls of its own.
            let (started, has_started) = std::sync::mpsc::channel();
            let thread = std::thread::spawn(move || {
                let was_allowed = crate::sys::attempt::socket().is_ok();
                started.send(()).unwrap();
                is_closed.recv().unwrap();
                let is_allowed = crate::sys::attempt::socket().is_ok();
                crate::sys::exit_now(if was_allowed && !is_allowed { CONFINED } else { 1 })
            });
            has_started.recv().unwrap();
            rustix::thread::set_no_new_privs(true).unwrap();
            let filters = compile(FilterProfile::Confined, 7).unwrap();
            filters.last.iter().for_each(|program| crate::sys::install_filter(program).unwrap());
            closed.send(()).unwrap();
            thread.join().unwrap();
        }
        #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "policy::seccomp::tests::a_thread_started_before_is_confined"])
            .env(MARKER, "1")
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(CONFINED), "{status}");
    }

    #[test]
    fn signal_calls_are_allowed_only_with_landlock_signal_scoping() {
        let has = |profile, abi, name| allowed_rules(profile, abi).iter().any(|rule| rule.name == name);
        assert!(has(FilterProfile::Lenient, 6, "tgkill") && !has(FilterProfile::Lenient, 5, "tgkill"));
        assert!(has(FilterProfile::Shell, 6, "kill") && !has(FilterProfile::Shell, 5, "kill"));
    }

    #[test]
    fn setup_calls_are_forbidden_in_the_final_filter() {
        let killed: Vec<_> = KILLED.iter().map(|rule| rule.name).collect();
        assert!(NEEDED_FOR_SET_UP.iter().chain(NEEDED_BY_ZYGOTE).all(|name| killed.contains(name)));
    }
}
