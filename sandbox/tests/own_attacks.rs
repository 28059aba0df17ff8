//! Our own attacks at every level, with and without the language check: none escapes, none forges a status,
//! nothing acts after the end. Headers: `expect`, `never` (statuses that would be forged), `control`, `open`
//! (a known weakness that is not fixed yet: reported, not failed).

use std::collections::BTreeMap;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus};

use crate::support::canary::{self, Canary, escaped};
use crate::support::{self, Sample, attacks};

/// The languages whose attacks run.
const LANGUAGES: &[Language] = &[Language::Python, Language::JavaScript, Language::Bash];
/// The command line of a process that a shell attack leaves behind.
const LEFT_BEHIND: &[u8] = b"sleep\x0077\0";

/// Describes a wrong record, if it is wrong.
fn describe_failure(sample: &Sample, program: &Program, record: &RunRecord) -> Option<String> {
    let (level, check) = (program.level, program.language_check);
    // A refusal can only be forged where the check cannot refuse.
    let could_be_refused = check && level != Level::Lenient && level != Level::Shell;
    let never = sample.header("never:").unwrap_or_default();
    let is_forged =
        !could_be_refused && never.split_whitespace().any(|status| status == record.status.name());
    let wrong = escaped(record) || is_forged || record.status == RunStatus::SandboxError;
    if let (true, Some(weakness)) = (wrong, sample.header("open:")) {
        println!("OPEN: {} at {level}, check {check}: {weakness}", sample.name);
        return None;
    }
    wrong.then(|| format!("{} at {level}, check {check}: {record:#?}", sample.name))
}

/// The number of programs per kind of control: an attack that also fails outside the sandbox is not evidence.
fn controls(samples: &[Sample]) -> BTreeMap<&str, usize> {
    let mut kinds = BTreeMap::new();
    for sample in samples {
        let kind = sample.header("control:").unwrap_or_default();
        assert!(
            ["yes", "none", "destructive"].contains(&kind),
            "{}: control '{kind}': run scripts/hostile-controls",
            sample.name
        );
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

fn assert_no_process_left() {
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!command.ends_with(LEFT_BEHIND), "a process was left behind: {}", entry.path().display());
    }
}

#[test]
fn none_of_our_own_attacks_escapes() {
    let _turn = support::exclusive();
    if canary::runs_again_with_the_variable("own_attacks::none_of_our_own_attacks_escapes") {
        return;
    }
    let canary = Canary::set_up();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = attacks::sandbox(scratch.path());
    for language in LANGUAGES {
        let samples = support::samples("own", *language);
        // There is no check of commands.
        let checks: &[bool] = if *language == Language::Bash { &[false] } else { &[true, false] };
        let wrong = attacks::run(&sandbox, &samples, checks, describe_failure);
        assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
        let kinds = controls(&samples);
        let of = |kind| kinds.get(kind).copied().unwrap_or(0);
        println!(
            "{language}: {} passed, {} no control, {} with a destructive control that is not run",
            of("yes"),
            of("none"),
            of("destructive")
        );
    }
    attacks::wait_for_late_acts();
    canary.assert_untouched();
    assert_no_process_left();
    canary.remove();
    // Waits for the remover.
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
