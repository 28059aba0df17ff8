//! Our own attacks at every level, with and without the language check: none escapes, none forges a status,
//! nothing acts after the end. Headers: `expect`, `never` (statuses that would be forged), `control`, `open`
//! (a known weakness that is not fixed yet: reported, not failed).

use std::collections::BTreeMap;
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions};

use crate::support::canary::{self, Canary, escaped};
use crate::support::{self, Sample};

/// The languages whose attacks run.
const LANGUAGES: &[Language] = &[Language::Python, Language::JavaScript, Language::Bash];
/// Long enough for a program that ends by itself on a busy machine.
const PATIENT_MS: u64 = 10_000;
/// Enough for a program that ends only by its limit.
const SHORT_MS: u64 = 900;
/// Processes that the programs leave behind act one second later.
const LATE: Duration = Duration::from_millis(1_500);
/// The command line of a process that a shell attack leaves behind.
const LEFT_BEHIND: &[u8] = b"sleep\x0077\0";

/// The levels that a language runs at.
fn levels(language: Language) -> &'static [Level] {
    if language == Language::Bash { &[Level::Shell] } else { &Level::FOR_CODE }
}

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

fn run(sandbox: &Sandbox, samples: &[Sample]) -> Vec<String> {
    let mut items = Vec::new();
    for sample in samples {
        for level in levels(sample.language) {
            items.extend([true, false].map(|check| (sample.clone(), *level, check)));
        }
    }
    let wrong = support::in_parallel(items, 8, |(sample, level, check)| {
        let mut program = Program::new(sample.language, level, sample.code.clone());
        program.language_check = check;
        let spins = sample.header("expect:").is_some_and(|expect| expect.contains("killed-by-limit"));
        program.timeout_ms = spins.then_some(SHORT_MS);
        describe_failure(&sample, &program, &sandbox.run(&program, &|| false))
    });
    wrong.into_iter().flatten().collect()
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
    let mut options: SandboxOptions = support::options(scratch.path());
    options.levels = support::levels_with_timeout(PATIENT_MS);
    let sandbox = Sandbox::new(options).unwrap();
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    for language in LANGUAGES {
        let samples = support::samples("own", *language);
        let wrong = run(&sandbox, &samples);
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
    #[expect(clippy::disallowed_methods, reason = "remaining processes act in real time")]
    std::thread::sleep(LATE);
    canary.assert_untouched();
    assert_no_process_left();
    canary.remove();
    // Waits for the remover.
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
