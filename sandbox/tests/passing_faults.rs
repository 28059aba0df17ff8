//! Faults that pass while the levels are tested: each level works again without a new sandbox. A child that
//! got out is never forgotten.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nanoclaw_sandbox::{Level, Program, RunRecord, RunStatus, Sandbox, SandboxOptions};
use rustix::process::{Resource, Rlimit};

use crate::support;

fn run(sandbox: &Sandbox, level: Level) -> RunRecord {
    let program = match level {
        Level::Shell => Program::new(nanoclaw_sandbox::Language::Bash, level, "echo 42"),
        _ => support::javascript(level, "console.log(6 * 7)"),
    };
    sandbox.run(&program, &|| false)
}

/// Every level refuses programs, and names the cause.
fn assert_off(sandbox: &Sandbox, cause: &str) {
    for level in Level::ALL {
        let record = run(sandbox, level);
        let error = record.error.as_deref().unwrap_or_default();
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::SandboxError, ""), "{record:#?}");
        let expected = [&format!("level {level} is being tested again"), cause];
        assert!(expected.iter().all(|part| error.contains(*part)), "{cause}: {error}");
    }
}

/// Every level runs programs.
fn assert_on(sandbox: &Sandbox) {
    for level in Level::ALL {
        let record = run(sandbox, level);
        assert_eq!((record.status, record.stdout.as_str()), (RunStatus::Ok, "42\n"), "{record:#?}");
    }
    assert!(sandbox.report().able(), "{:#?}", sandbox.report());
}

#[expect(clippy::disallowed_methods, reason = "the test mounts a file system, and starts itself")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    command(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

#[test]
fn p5_a_missing_scratch_directory_switches_no_level_off_for_good() {
    let _turn = support::exclusive();
    let home = tempfile::tempdir().unwrap();
    let scratch = home.path().join("later");
    let sandbox = support::sandbox(&scratch);
    assert_off(&sandbox, "No such file or directory");
    let report = sandbox.report();
    assert!(!report.able() && report.levels.iter().all(|level| !level.tested), "{report:#?}");
    assert!(
        Level::ALL
            .iter()
            .all(|level| sandbox.known_fault(nanoclaw_sandbox::Language::JavaScript, *level).is_none())
    );
    std::fs::create_dir(&scratch).unwrap();
    assert_on(&sandbox);
    support::assert_nothing_left(&scratch);
}

#[test]
fn p5_a_full_scratch_directory_switches_no_level_off_for_good() {
    let _turn = support::exclusive();
    let home = tempfile::tempdir().unwrap();
    let mounted = home.path().to_str().unwrap();
    if !succeeds("mount", &["-t", "tmpfs", "-o", "size=256k", "tmpfs", mounted]) {
        writeln!(std::io::stderr(), "SKIPPED: the full scratch directory needs root").expect("stderr");
        return;
    }
    let filler = home.path().join("filler");
    let is_full = std::fs::write(&filler, vec![0; 512 << 10]).is_err();
    let sandbox = support::sandbox(home.path());
    assert_off(&sandbox, "no space left in the scratch directory");
    std::fs::remove_file(filler).unwrap();
    assert_on(&sandbox);
    support::assert_nothing_left(home.path());
    drop(sandbox);
    assert!(is_full && succeeds("umount", &["--lazy", mounted]));
}

#[test]
fn p5_a_lack_of_descriptors_switches_no_level_off_for_good() {
    const INSIDE: &str = "NANOCLAW_TEST_FEW_DESCRIPTORS";
    let _turn = support::exclusive();
    let Some(scratch) = std::env::var_os(INSIDE) else {
        let scratch = tempfile::tempdir().unwrap();
        let name = "passing_faults::p5_a_lack_of_descriptors_switches_no_level_off_for_good";
        let inside = command(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INSIDE, scratch.path())
            .status();
        assert!(inside.unwrap().success());
        return;
    };
    let sandbox = support::sandbox(Path::new(&scratch));
    let before = rustix::process::getrlimit(Resource::Nofile);
    // The descriptors of this process alone, and those of its threads.
    for few in [0, 3, 6, 9, 12] {
        let open = u64::try_from(support::open_descriptors()).unwrap() - 1;
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(open + few), ..before }).unwrap();
        let record = run(&sandbox, Level::Strict);
        rustix::process::setrlimit(Resource::Nofile, before).unwrap();
        if few == 0 {
            let error = record.error.as_deref().unwrap_or_default();
            assert!(error.contains("no file descriptor is left"), "{record:#?}");
        }
    }
    assert_on(&sandbox);
    support::assert_nothing_left(Path::new(&scratch));
}

/// A child binary that is killed at its start while the file `killed` is there.
fn mortal_child(home: &Path) -> PathBuf {
    let (script, killed) = (home.join("child"), home.join("killed"));
    let real = env!("CARGO_BIN_EXE_nanoclaw-sandbox-child");
    let text = format!("#!/bin/sh\n[ -e '{}' ] && kill -9 $$\nexec '{real}' \"$@\"\n", killed.display());
    std::fs::write(&script, text).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(killed, "").unwrap();
    script
}

#[test]
fn p5_a_broker_killed_at_start_switches_no_level_off_for_good() {
    let _turn = support::exclusive();
    let (home, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = SandboxOptions { child_exe: mortal_child(home.path()), ..support::options(scratch.path()) };
    let sandbox = Sandbox::new(options).unwrap();
    assert_off(&sandbox, "broker died");
    std::fs::remove_file(home.path().join("killed")).unwrap();
    assert_on(&sandbox);
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}

#[test]
fn p5_a_level_that_a_child_got_out_of_stays_off() {
    let _turn = support::exclusive();
    let (home, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let child = home.path().join("child");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nanoclaw-sandbox-seccomp-only"), &child).unwrap();
    let options = SandboxOptions { child_exe: child.clone(), ..support::options(scratch.path()) };
    let sandbox = Sandbox::new(options).unwrap();
    for _ in 0..2 {
        for level in Level::ALL {
            let record = run(&sandbox, level);
            let error = record.error.as_deref().unwrap_or_default();
            assert_eq!(record.status, RunStatus::SandboxError, "{record:#?}");
            assert!(error.contains(&format!("level {level} is off: self-test: a child could")), "{error}");
        }
        // The next broker would hold.
        std::fs::remove_file(&child).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"), &child).unwrap();
        support::processes_named("nanoclaw-broker")
            .into_iter()
            .filter_map(support::Process::of)
            .for_each(|broker| broker.signal(rustix::process::Signal::KILL));
    }
    assert!(sandbox.report().levels.iter().all(|level| !level.able && level.tested));
    drop(sandbox);
    support::assert_nothing_left(scratch.path());
}
