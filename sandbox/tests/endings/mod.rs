//! The record tells what the guest did, whatever it did to its own interpreter: never `sandbox_error`, and no
//! frame of our own code in a traceback.

mod javascript;
mod python;

use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus, Sandbox};

use crate::support::{self, levels_with_timeout};

/// The file name of our own Python code in tracebacks.
const OWN_FRAME: &str = "File \"<string>\"";
const TIMEOUT_MS: u64 = 20_000;

/// Runs each program at level lenient, where its end is known, and at the other levels, which refuse a part
/// of what it does, with and without the language check. Describes the wrong records.
fn wrong_endings(language: Language, cases: Vec<(String, RunStatus, &'static str)>) -> Vec<String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut options = support::options(scratch.path());
    options.levels = levels_with_timeout(TIMEOUT_MS);
    let sandbox = Sandbox::new(options).unwrap();
    assert!(sandbox.report().able(), "this kernel cannot sandbox: {:#?}", sandbox.report());
    let wrong = support::in_parallel(cases, 2, |(code, status, text)| {
        let run = |level, check| {
            let mut program = Program::new(language, level, code.clone());
            program.language_check = check;
            sandbox.run(&program, &|| false)
        };
        let mut wrong: Vec<String> = [(Level::Strict, false), (Level::Strict, true), (Level::Standard, true)]
            .into_iter()
            .filter_map(|(level, check)| describe_untruth(&code, &run(level, check)))
            .collect();
        let record = run(Level::Lenient, true);
        wrong.extend(describe_untruth(&code, &record));
        if record.status != status || !record.error.as_deref().unwrap_or_default().contains(text) {
            wrong.push(describe(&code, &record, &format!("expected {status} with '{text}'")));
        }
        wrong
    });
    wrong.concat()
}

/// What no record of a guest may say.
fn describe_untruth(code: &str, record: &RunRecord) -> Option<String> {
    let is_ours = record.stderr.contains(OWN_FRAME)
        || record
            .error
            .as_deref()
            .is_some_and(|error| error.contains(OWN_FRAME) || error.contains("<prelude>"));
    (is_ours || record.status == RunStatus::SandboxError).then(|| describe(code, record, "untrue"))
}

fn describe(code: &str, record: &RunRecord, what: &str) -> String {
    let end = record.stderr.len().saturating_sub(300);
    let stderr = String::from_utf8_lossy(&record.stderr.as_bytes()[end..]);
    let error = record.error.as_deref().unwrap_or_default();
    format!("{what}: {code:.200}\n    at {}: {} {error:.300}\n    {stderr}", record.level, record.status)
}

fn assert_truthful(
    language: Language,
    programs: &[python::Case],
    long: Vec<(String, RunStatus, &'static str)>,
) {
    let written = programs.iter().map(|(code, status, text)| ((*code).to_owned(), *status, *text));
    let wrong = wrong_endings(language, written.chain(long).collect());
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_python_guest_cannot_make_its_record_untrue() {
    let _turn = support::shared();
    assert_truthful(Language::Python, python::PROGRAMS, python::long_programs());
}

#[test]
fn a_javascript_guest_cannot_make_its_record_untrue() {
    let _turn = support::shared();
    assert_truthful(Language::JavaScript, javascript::PROGRAMS, javascript::long_programs());
}

#[test]
fn a_refusal_names_a_huge_module_briefly() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    for name in ["a".repeat(300_000), "é".repeat(150_000)] {
        let record = sandbox.run(&support::python(Level::Strict, &format!("import {name}")), &|| false);
        let error = record.error.unwrap_or_default();
        assert_eq!(record.status, RunStatus::ModuleNotAllowed, "{error:.300}");
        assert!(
            error.len() < 2_000 && error.contains("not part of Python's standard library"),
            "{error:.300}"
        );
    }
}

#[test]
fn a_python_guest_is_the_main_module() {
    let _turn = support::shared();
    let scratch = tempfile::tempdir().unwrap();
    let code = "import pickle, __main__, typing\nclass A:\n  x: 'A'\n\
                print(type(pickle.loads(pickle.dumps(A()))) is A is __main__.A, typing.get_type_hints(A)['x'] is A)";
    let record = support::sandbox(scratch.path()).run(&support::python(Level::Lenient, code), &|| false);
    assert_eq!(record.stdout, "True True\n", "{record:#?}");
}
