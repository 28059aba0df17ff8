//! Every `CPython` of this machine: 3.9 and newer run programs at every level, older ones are refused
//! because of their version.

use std::path::{Path, PathBuf};

use nanoclaw_sandbox::{Language, Level, RunRecord, RunStatus, Sandbox};

use crate::support;

/// The interpreters that pyenv and the distribution installed, if any.
fn interpreters() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let versions = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin/python3")).collect();
    found.push("/usr/bin/python3".into());
    found.push("/root/.pyenv/shims/python3".into());
    found.retain(|path| path.is_file());
    found.sort();
    found
}

/// The output of the interpreter outside the sandbox: an older one may lack a function that a program uses.
#[expect(clippy::disallowed_methods, reason = "the comparison needs the interpreter outside of the sandbox")]
fn outside(interpreter: &Path, program: &Path) -> String {
    let output = std::process::Command::new(interpreter)
        .args(["-I", "-S", "-X", "utf8"])
        .arg(program)
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_interpreter_runs_or_is_refused_by_its_version() {
    let _turn = support::shared();
    let wrong = support::in_parallel(interpreters(), 2, |path| {
        let scratch = tempfile::tempdir().unwrap();
        let mut options = support::options(scratch.path());
        options.python = Some(path.clone());
        let sandbox = Sandbox::new(options).unwrap();
        let report = sandbox.report().python;
        let Some(version) = report.version else {
            let reason = report.reason.unwrap_or_default();
            return (!reason.contains("is older than 3.9")).then(|| format!("{}: {reason}", path.display()));
        };
        let mut failures = Vec::new();
        for sample in support::samples("benign", Language::Python).into_iter().step_by(3) {
            let expected = outside(&path, &sample.path);
            let records = [Level::Standard, Level::Lenient]
                .map(|level| sandbox.run(&support::python(level, &sample.code), &|| false));
            let fine =
                |r: &RunRecord| r.stdout == expected && matches!(r.status, RunStatus::Ok | RunStatus::Error);
            let wrong = records.iter().filter(|r| !fine(r));
            failures.extend(wrong.map(|r| format!("{version} {}: {r:#?}", sample.name)));
        }
        let traceback = sandbox.run(&support::python(Level::Standard, "def f():\n    1 / 0\nf()"), &|| false);
        let error = traceback.error.unwrap_or_default();
        if !error.contains("line 2, in f") || error.contains("<string>") {
            failures.push(format!("{version}: traceback {error}"));
        }
        // Bypasses the audit hook, which would raise an explanation.
        let executes = "import ctypes\nctypes.CDLL(None).execv(b'/bin/true', (ctypes.c_char_p * 1)(None))";
        let executes = support::python(Level::Lenient, executes);
        let killed = sandbox.run(&executes, &|| false);
        if killed.status != RunStatus::ForbiddenSyscall {
            failures.push(format!("{version}: {killed:#?}"));
        }
        (!failures.is_empty()).then(|| failures.join("\n"))
    });
    let wrong: Vec<_> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
