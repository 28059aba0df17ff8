//! Ordinary programs print the same as outside, at the level of their header and at standard.

use nanoclaw_sandbox::{Language, Level, Program, RunStatus};

use crate::support::{self, Sample};

fn run_all(language: Language) {
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let mut items: Vec<(Sample, Level)> = Vec::new();
    for sample in support::samples("benign", language) {
        if sample.header("level:") == Some("strict") {
            items.push((sample.clone(), Level::Strict));
        }
        items.push((sample.clone(), Level::Standard));
        items.push((sample, Level::Lenient));
    }
    let wrong = support::in_parallel(items, 3, |(sample, level)| {
        let record = sandbox.run(&Program::new(language, level, sample.code.clone()), &|| false);
        let expected = std::fs::read_to_string(sample.path.with_extension("out")).unwrap();
        let good = record.status == RunStatus::Ok && record.stdout == expected;
        (!good).then(|| format!("{} at {level}: expected {expected:?}, got {record:#?}", sample.name))
    });
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    support::assert_nothing_left(scratch.path());
}

#[test]
fn benign_python_programs_print_the_expected_output() {
    let _turn = support::exclusive();
    run_all(Language::Python);
    run_all(Language::JavaScript);
}
