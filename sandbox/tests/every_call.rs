//! Makes every system call in real children of each profile and compares the outcome with the policy table:
//! killed calls end with SIGSYS, calls without a row fail with EPERM, answered calls return their answer,
//! and allowed calls reach the kernel. Every alternative and every bit of a condition is tried.
//!
//! Calls that cannot be made with arbitrary arguments have a test of their own, or are in `SPECIAL` with the
//! reason.

use std::collections::BTreeMap;

use nanoclaw_sandbox::ablation::{ArgumentCondition, PolicyAction, PolicyRow, PolicyTable, tables};
use nanoclaw_sandbox::{Level, RunLimits};
use serde_json::{Value, json};

use crate::support;
use crate::support::broker::{RunOutcome, TestBroker, request};

type Call = [u64; 7];

/// Beyond the last call of current kernels.
const NUMBERS: std::ops::RangeInclusive<i64> = 0..=470;
const X32: u64 = 0x4000_0000;
/// Calls of one child: their answers must fit into a pipe, and the request into a packet.
const BATCH: usize = 200;
/// The landlock ABIs that select different tables.
const ABIS: [u32; 2] = [7, 1];

/// The expected effect of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExpectedEffect {
    Killed,
    Answered(i64),
    /// Any result except the filter's EPERM.
    Served,
}

/// Allowed calls that this test cannot make, and the test that shows that they are allowed.
#[cfg(target_arch = "x86_64")]
const SPECIAL: &[(i64, &str)] = &[
    (libc::SYS_exit, "ends the child: see `exit_pause_and_sigreturn_are_allowed`"),
    (libc::SYS_exit_group, "likewise"),
    (libc::SYS_pause, "waits for ever: see `exit_pause_and_sigreturn_are_allowed`"),
    (libc::SYS_rt_sigreturn, "crashes outside a handler: see `exit_pause_and_sigreturn_are_allowed`"),
    (libc::SYS_setsid, "the kernel itself answers EPERM to a leader: see `a_command_may_create_sessions`"),
];

/// `arch_prctl(ARCH_SET_FS)` removes the thread's storage: see `exit_pause_and_sigreturn_are_allowed`.
const SET_FS: u64 = 0x1002;

/// `uretprobe` and `uprobe`: newer kernels exempt them from filters for their own trampolines and refuse
/// them elsewhere, the first with SIGILL, the second with ENXIO. See `uprobe_calls_have_no_effect`.
const THE_KERNELS_OWN: &[i64] = &[335, 336];

fn is_special(call: &Call) -> bool {
    let number = call[0].cast_signed();
    SPECIAL.iter().any(|(special, _)| *special == number)
        || number == libc::SYS_arch_prctl && call[1] & 0xffff_ffff == SET_FS
}

/// `__O_TMPFILE`, which fails everywhere as on a file system that lacks such files.
const O_TMPFILE: u64 = 0o20_000_000;

/// Harmless arguments for every call: an invalid descriptor, an invalid address, an invalid length.
fn harmless(number: i64) -> Call {
    let mut call = [u64::MAX; 7];
    call[0] = number.cast_unsigned();
    if number == libc::SYS_arch_prctl {
        // For an address of its own, the kernel itself returns EPERM.
        call[2] = 0;
    }
    call
}

fn holds(condition: &ArgumentCondition, call: &Call) -> bool {
    call[condition.argument + 1] & condition.mask == condition.value
}

/// Evaluates the table for a call, independently of the kernel's filters.
fn expected_effect(rows: &BTreeMap<i64, PolicyRow>, call: &Call) -> ExpectedEffect {
    // The kernel uses only the lower half of the register.
    let number = call[0] & 0xffff_ffff;
    if number >= X32 {
        return ExpectedEffect::Killed;
    }
    if number == libc::SYS_openat.cast_unsigned() && call[3] & O_TMPFILE != 0 {
        return ExpectedEffect::Answered(-i64::from(libc::EOPNOTSUPP));
    }
    let refused = ExpectedEffect::Answered(-i64::from(libc::EPERM));
    match rows.get(&number.cast_signed()).map(|row| &row.action) {
        None => refused,
        Some(PolicyAction::Killed) => ExpectedEffect::Killed,
        Some(PolicyAction::Allowed) => ExpectedEffect::Served,
        Some(PolicyAction::Answered(errno)) => ExpectedEffect::Answered(-i64::from(*errno)),
        Some(PolicyAction::AllowedIf(alternatives)) => {
            let any = alternatives
                .iter()
                .any(|alternative| alternative.iter().all(|condition| holds(condition, call)));
            if any { ExpectedEffect::Served } else { refused }
        }
    }
}

/// One call per alternative, and one per bit that an alternative checks.
fn variations(row: &PolicyRow) -> Vec<Call> {
    let PolicyAction::AllowedIf(alternatives) = &row.action else { return vec![harmless(row.number)] };
    let mut calls = Vec::new();
    for alternative in alternatives {
        let mut allowed = harmless(row.number);
        for condition in alternative {
            let argument = &mut allowed[condition.argument + 1];
            *argument = *argument & !condition.mask | condition.value;
        }
        calls.push(allowed);
        for condition in alternative {
            for bit in (0..64).filter(|bit| condition.mask >> bit & 1 == 1) {
                let mut flipped = allowed;
                flipped[condition.argument + 1] ^= 1 << bit;
                calls.push(flipped);
            }
        }
    }
    calls
}

fn rows_of(table: &PolicyTable) -> BTreeMap<i64, PolicyRow> {
    let rows: BTreeMap<_, _> = table.rows.iter().map(|row| (row.number, row.clone())).collect();
    assert_eq!(rows.len(), table.rows.len(), "each call appears once in {}", table.profile);
    rows
}

/// Every number, every alternative, every bit, and invalid numbers.
fn calls_for(rows: &BTreeMap<i64, PolicyRow>) -> Vec<Call> {
    let mut calls = Vec::new();
    for number in NUMBERS.filter(|number| !THE_KERNELS_OWN.contains(number)) {
        match rows.get(&number) {
            Some(row) => calls.extend(variations(row)),
            None => calls.push(harmless(number)),
        }
    }
    calls.retain(|call| !is_special(call) || expected_effect(rows, call) != ExpectedEffect::Served);
    let raw = |number: u64| [number, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX, u64::MAX];
    let getpid = libc::SYS_getpid.cast_unsigned();
    // The x32 ABI: old numbers, its own ones, the last one; and the same with more bits set.
    calls.extend([0, 1, 2, 39, 56, 59, 60, 231, 512, 520, 547, 0x3fff_ffff].map(|n| raw(X32 + n)));
    calls.extend([0x8000_0000, 0xc000_0000, 0x8000_0000 | getpid, 0xffff_ffff, u64::MAX].map(raw));
    calls.extend([-2, -39, i64::from(i32::MIN)].map(|number: i64| raw(number.cast_unsigned())));
    // The upper half of the register has no effect.
    calls.extend(
        [1 << 32 | getpid, u64::MAX << 32 | getpid, 1 << 32 | libc::SYS_ptrace.cast_unsigned()].map(raw),
    );
    calls.extend([1 << 32 | X32 | getpid, 0x4000_0000_0000_0000 | libc::SYS_socket.cast_unsigned()].map(raw));
    calls
}

fn request_for(profile: &str, abi: u32, calls: &[Call]) -> Value {
    let level = match profile {
        "confined" => Level::Standard,
        "lenient" => Level::Lenient,
        _ => Level::Shell,
    };
    let mut limits = json!(RunLimits::of(level));
    // The filters allow a fork, and the kernel refuses it with EAGAIN.
    limits["processes"] = json!(0);
    let mut call_request = request();
    call_request["level"] = json!(level);
    call_request["limits"] = limits;
    call_request["landlock_abi"] = json!(abi);
    call_request["task"] = json!({"kind": "probe", "calls": {"calls": calls, "online": profile == "online"}});
    call_request
}

fn make(broker: &TestBroker, profile: &str, abi: u32, calls: &[Call]) -> RunOutcome {
    let outcome = broker.run(&request_for(profile, abi, calls).to_string(), "");
    assert!(outcome.frames.contains("\"go\""), "{outcome:?}");
    outcome
}

/// The result of each call; `None` if it killed the child.
fn observe(broker: &TestBroker, profile: &str, abi: u32, calls: &[Call]) -> Vec<Option<i64>> {
    let mut seen = Vec::new();
    while seen.len() < calls.len() {
        let rest = &calls[seen.len()..];
        let batch = &rest[..rest.len().min(BATCH)];
        let outcome = make(broker, profile, abi, batch);
        let answers: Vec<_> = outcome.stdout.lines().map(|line| Some(line.parse().unwrap())).collect();
        let ended = answers.len() == batch.len();
        seen.extend(answers);
        if ended {
            assert_eq!(outcome.exit_code(), Some(0), "{profile}: {outcome:?}");
        } else {
            let last = calls[seen.len()];
            let killed = Some(i64::from(libc::SIGSYS));
            assert_eq!(outcome.signal(), killed, "{profile}: {last:x?} neither answered nor killed");
            seen.push(None);
        }
    }
    seen
}

fn matches_policy(expected: ExpectedEffect, result: Option<i64>) -> bool {
    match (expected, result) {
        (ExpectedEffect::Killed, None) => true,
        (ExpectedEffect::Answered(answer), Some(result)) => answer == result,
        (ExpectedEffect::Served, Some(result)) => result != -i64::from(libc::EPERM),
        _ => false,
    }
}

#[test]
fn every_system_call_follows_the_policy_table() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    for (abi, table) in ABIS.into_iter().flat_map(|abi| tables(abi).into_iter().map(move |t| (abi, t))) {
        let rows = rows_of(&table);
        let calls = calls_for(&rows);
        let seen = observe(&broker, &table.profile, abi, &calls);
        let mut wrong = Vec::new();
        let mut counts = [0; 3];
        for (call, seen) in calls.iter().zip(seen) {
            let expected_effect = expected_effect(&rows, call);
            let kind = match expected_effect {
                ExpectedEffect::Killed => 0,
                ExpectedEffect::Answered(_) => 1,
                ExpectedEffect::Served => 2,
            };
            counts[kind] += 1;
            if !matches_policy(expected_effect, seen) {
                let name = rows.get(&call[0].cast_signed()).map_or("?", |row| row.name);
                wrong.push(format!("{name} {call:x?}: expected {expected_effect:?}, seen {seen:?}"));
            }
        }
        let [killed, refused, served] = counts;
        println!(
            "{} under ABI {abi}: {} calls: {killed} killed, {refused} refused or answered, {served} served",
            table.profile,
            calls.len()
        );
        assert!(wrong.is_empty(), "{} under ABI {abi}:\n{}", table.profile, wrong.join("\n"));
        assert!(killed > 60 && refused > 200 && served > 50, "{counts:?}");
    }
}

/// The allow list of code permits `seccomp`, because the kill list is installed after it. The call still
/// kills.
#[test]
fn the_most_severe_filter_result_wins() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    for profile in ["confined", "lenient"] {
        for number in [libc::SYS_seccomp, libc::SYS_landlock_restrict_self] {
            let outcome = make(&broker, profile, 7, &[harmless(number)]);
            assert_eq!(outcome.signal(), Some(i64::from(libc::SIGSYS)), "{profile}: {outcome:?}");
        }
    }
}

#[test]
fn uprobe_calls_have_no_effect() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    for number in THE_KERNELS_OWN {
        let outcome = make(&broker, "confined", 7, &[harmless(*number)]);
        let refused = [libc::EPERM, libc::ENXIO].map(|errno| format!("-{errno}\n")).contains(&outcome.stdout);
        assert!(refused || outcome.signal() == Some(i64::from(libc::SIGILL)), "{number}: {outcome:?}");
    }
}

#[test]
fn exit_pause_and_sigreturn_are_allowed() {
    let _turn = support::shared();
    let broker = TestBroker::start();
    let call = |number: i64, argument: u64| [number.cast_unsigned(), argument, 0, 0, 0, 0, 0];
    for table in tables(7) {
        let rows = rows_of(&table);
        let run = |calls: &[Call]| make(&broker, &table.profile, 7, calls);
        for number in [libc::SYS_exit, libc::SYS_exit_group] {
            assert_eq!(run(&[call(number, 7)]).exit_code(), Some(7), "{}", table.profile);
        }
        let crash = run(&[call(libc::SYS_rt_sigreturn, 0)]).signal();
        // The signal depends on the stack. If the call were refused, the child would continue.
        assert!(crash.is_some_and(|signal| signal != i64::from(libc::SIGSYS)), "{}", table.profile);
        if rows.contains_key(&libc::SYS_pause) {
            let waited = run(&[call(libc::SYS_alarm, 1), call(libc::SYS_pause, 0)]);
            assert_eq!(waited.signal(), Some(i64::from(libc::SIGALRM)), "{}", table.profile);
        }
        if rows.contains_key(&libc::SYS_arch_prctl) {
            let crash = run(&[call(libc::SYS_arch_prctl, SET_FS)]);
            assert_eq!(crash.signal(), Some(i64::from(libc::SIGSEGV)), "{}: {crash:?}", table.profile);
        }
    }
}
