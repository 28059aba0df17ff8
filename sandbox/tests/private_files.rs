//! The self-test tries to open the caller's private files as real programs would.

use std::path::{Path, PathBuf};

use nanoclaw_sandbox::{Language, Level, Program, RunStatus, Sandbox, SandboxReport};

use crate::support;

fn report(scratch: &Path, private: PathBuf, program_dir: &Path) -> (Sandbox, SandboxReport) {
    let mut options = support::options(scratch);
    options.private_files = vec![scratch.join("fine"), private];
    options.program_dirs = vec![program_dir.to_owned()];
    let sandbox = Sandbox::new(options).unwrap();
    let report = sandbox.report();
    (sandbox, report)
}

/// The levels whose programs can read the file, as the report says.
fn off(report: &SandboxReport, file: &Path) -> Vec<Level> {
    let off = report.levels.iter().filter(|level| !level.able);
    off.map(|found| {
        let reason = found.reason.as_deref().unwrap();
        let names = [found.level.name().to_owned(), format!("'{}'", file.display())];
        assert!(names.iter().all(|name| reason.contains(name)), "{reason}");
        found.level
    })
    .collect()
}

#[test]
fn p5_a_level_whose_programs_can_read_a_private_file_is_off() {
    let _turn = support::shared();
    let (scratch, programs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = programs.path().join("session_key");
    std::fs::write(&key, "secret").unwrap();
    std::fs::write(scratch.path().join("fine"), "secret").unwrap();
    let (sandbox, found) = report(scratch.path(), key.clone(), programs.path());
    assert_eq!(off(&found, &key), [Level::Shell]);
    let read = Program::new(Language::Bash, Level::Shell, format!("cat {}", key.display()));
    let record = sandbox.run(&read, &|| false);
    assert_eq!((record.status, record.stdout.as_str()), (RunStatus::SandboxError, ""), "{record:#?}");
    // What the interpreter reads, Python programs can read at every level.
    let ask = support::python(Level::Lenient, "import os\nprint(os.__file__)");
    let answer = support::sandbox(scratch.path()).run(&ask, &|| false);
    let library = PathBuf::from(answer.stdout.trim());
    let (_, found) = report(scratch.path(), library.clone(), programs.path());
    assert!(off(&found, &library).starts_with(&Level::FOR_CODE), "{found:#?}");
    let (_, found) = report(scratch.path(), scratch.path().join("missing"), programs.path());
    assert!(found.able(), "{found:#?}");
}
