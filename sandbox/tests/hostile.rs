//! Hostile programs at every level, with and without the language check: none escapes, nothing stays behind.

use nanoclaw_sandbox::{Language, Program, RunRecord, RunStatus};

use crate::support::canary::{self, Canary, escaped};
use crate::support::{self, Sample, attacks};

/// A run is wrong if the program escaped or the sandbox itself failed.
fn describe_failure(sample: &Sample, program: &Program, record: &RunRecord) -> Option<String> {
    let wrong = escaped(record) || record.status == RunStatus::SandboxError;
    let (level, check) = (program.level, program.language_check);
    wrong.then(|| format!("{} at {level}, check {check}: {record:#?}", sample.name))
}

fn run_suite(language: Language, checks: &[bool]) {
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = attacks::sandbox(scratch.path());
    let wrong = attacks::run(&sandbox, &support::samples("hostile", language), checks, describe_failure);
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
    attacks::wait_for_late_acts();
    canary.assert_untouched();
    canary.remove();
}
