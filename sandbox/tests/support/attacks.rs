//! Runs a suite of attacks at every level.

use std::path::Path;
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, Sandbox};

use super::{Sample, in_parallel, levels_with_timeout, options};

/// Long enough for a program that ends by itself on a busy machine.
const PATIENT_MS: u64 = 10_000;
/// Enough for a program that ends only by its limit.
const SHORT_MS: u64 = 900;
/// Programs at once. Those that only wait for the end of their time need little else.
const AT_ONCE: usize = 8;
const WAITING_AT_ONCE: usize = 16;
/// Processes that the programs leave behind act one second later.
const LATE: Duration = Duration::from_millis(1_500);

/// A sandbox for attacks.
pub(crate) fn sandbox(scratch: &Path) -> Sandbox {
    let mut options = options(scratch);
    options.levels = levels_with_timeout(PATIENT_MS);
    options.max_parallel = WAITING_AT_ONCE;
    let sandbox = Sandbox::new(options).unwrap();
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    sandbox
}

/// The time limit of a program that ends only by it.
pub(crate) fn short_timeout(sample: &Sample) -> Option<u64> {
    sample.header("expect:").is_some_and(|expect| expect.contains("killed-by-limit")).then_some(SHORT_MS)
}

/// The levels that a language runs at.
fn levels(language: Language) -> &'static [Level] {
    if language == Language::Bash { &[Level::Shell] } else { &Level::FOR_CODE }
}

/// Runs each program at every level, with and without the language check as `checks` says, and collects what
/// `describe_failure` finds.
pub(crate) fn run(
    sandbox: &Sandbox,
    samples: &[Sample],
    checks: &[bool],
    describe_failure: impl Fn(&Sample, &Program, &RunRecord) -> Option<String> + Sync,
) -> Vec<String> {
    let mut items = Vec::new();
    for sample in samples {
        for level in levels(sample.language) {
            items.extend(checks.iter().map(|check| (sample, *level, *check)));
        }
    }
    let only_waits =
        |sample: &Sample| sample.header("class:") == Some("cpu") && short_timeout(sample).is_some();
    let (waiting, others): (Vec<_>, Vec<_>) = items.into_iter().partition(|(sample, ..)| only_waits(sample));
    let run = |(sample, level, check): (&Sample, Level, bool)| {
        let mut program = Program::new(sample.language, level, sample.code.clone());
        program.language_check = check;
        program.timeout_ms = short_timeout(sample);
        describe_failure(sample, &program, &sandbox.run(&program, &|| false))
    };
    let mut wrong = in_parallel(waiting, WAITING_AT_ONCE, run);
    wrong.extend(in_parallel(others, AT_ONCE, run));
    wrong.into_iter().flatten().collect()
}

/// Waits until processes that were left behind have acted.
#[expect(clippy::disallowed_methods, reason = "remaining processes act in real time")]
pub(crate) fn wait_for_late_acts() {
    std::thread::sleep(LATE);
}
