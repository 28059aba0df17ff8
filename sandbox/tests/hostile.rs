//! Hostile programs at every level, with and without the language check: none escapes, nothing stays behind.

use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions};

use crate::support::canary::{self, Canary, escaped};
use crate::support::{self, Sample};

/// Long enough for a program that ends by itself on a busy machine.
const PATIENT_MS: u64 = 10_000;
/// Enough for a program that ends only by its limit.
const SHORT_MS: u64 = 900;

/// A run is wrong if the program escaped or the sandbox itself failed.
fn describe_failure(sample: &Sample, level: Level, check: bool, record: &RunRecord) -> Option<String> {
    let wrong = escaped(record) || record.status == RunStatus::SandboxError;
    wrong.then(|| format!("{} at {level}, check {check}: {record:#?}", sample.name))
}

/// Processes that the programs leave behind act one second later.
const LATE: Duration = Duration::from_millis(1_500);

/// The levels that a language runs at.
fn levels(language: Language) -> &'static [Level] {
    if language == Language::Bash { &[Level::Shell] } else { &Level::FOR_CODE }
}

fn run_suite(language: Language, checks: &[bool]) {
    let scratch = tempfile::tempdir().unwrap();
    let mut options: SandboxOptions = support::options(scratch.path());
    options.levels = support::levels_with_timeout(PATIENT_MS);
    let sandbox = Sandbox::new(options).unwrap();
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let mut items = Vec::new();
    for sample in support::samples("hostile", language) {
        for level in levels(language) {
            items.extend(checks.iter().map(|check| (sample.clone(), *level, *check)));
        }
    }
    let wrong = support::in_parallel(items, 8, |(sample, level, check)| {
        let mut program = Program::new(language, level, sample.code.clone());
        program.language_check = check;
        let spins = sample.header("expect:").is_some_and(|expect| expect.contains("killed-by-limit"));
        program.timeout_ms = spins.then_some(SHORT_MS);
        describe_failure(&sample, level, check, &sandbox.run(&program, &|| false))
    });
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Waits for the remover.
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn no_hostile_program_escapes_at_any_level() {
    let _turn = support::exclusive();
    if canary::runs_again_with_the_variable("hostile::no_hostile_program_escapes_at_any_level") {
        return;
    }
    let canary = Canary::set_up();
    run_suite(Language::Python, &[true, false]);
    run_suite(Language::JavaScript, &[false]);
    run_suite(Language::Bash, &[false]);
    #[expect(clippy::disallowed_methods, reason = "remaining processes act in real time")]
    std::thread::sleep(LATE);
    canary.assert_untouched();
    canary.remove();
}
