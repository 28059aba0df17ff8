//! The two ablations: the hostile programs with landlock alone, and with system call filters alone. Some
//! must escape in each: a suite that passes with half of the policy would prove nothing about the other
//! half.
//!
//! The test starts itself again in namespaces of its own (mounts, processes, IPC, network), where everything
//! is read-only except empty temporary directories, so that an escaped program does no harm. Programs that
//! fill memory, disks or the process table do not run.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use nanoclaw_sandbox::{Language, Level, Program, Sandbox, SandboxOptions};

use crate::support::canary::{Canary, escaped};
use crate::support::{self, Sample, attacks};

/// Set in the namespaces.
const INSIDE: &str = "NANOCLAW_SANDBOX_ABLATION";
/// Prepares the namespaces for the test: private writable directories, and a loopback device.
const FURNISH: &str = "set -e\n\
        for place in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o size=64m,nr_inodes=20k tmpfs $place; done\n\
        mount -o remount,bind,ro /\n\
        python3 - <<'end'\n\
import fcntl, socket, struct\n\
fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sH22x', b'lo', 1))\n\
end\n\
        exec \"$@\"";
/// Enough for a program that acts.
const TIMEOUT_MS: u64 = 3_000;
/// Classes whose programs only consume resources.
const CONSUMING: &[&str] = &["cpu", "memory", "disk", "stack", "output"];
/// Destructive programs by name. The programs of `own` have a header for it.
const DESTRUCTIVE: &[&str] = &["thread_bomb.py", "kill_pid1.py", "sys_swapon.py", "sys_quotactl.py"];
/// Far fewer than escape: the number depends on the host and its kernel.
const LEAST: usize = 10;

/// `false` inside the namespaces; `true` outside, after the test has run inside or was skipped.
fn runs_in_namespaces(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let mut around = vec![
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--ipc",
        "--net",
        "--mount-proc",
        "bash",
        "-c",
        FURNISH,
        "ablation",
    ];
    if !rustix::process::geteuid().is_root() {
        around.insert(1, "--map-root-user");
    }
    let [program, arguments @ ..] = around.as_slice() else { return true };
    #[expect(clippy::disallowed_methods, reason = "the test starts itself")]
    let command = |inner: &[&str]| {
        let mut command = std::process::Command::new(program);
        command
            .args(arguments)
            .args(inner)
            .env(INSIDE, "1")
            .env("SBX_CANARY", "SBX_CANARY in the environment");
        command.status()
    };
    if !command(&["true"]).is_ok_and(|status| status.success()) {
        writeln!(std::io::stderr(), "SKIPPED: no namespaces to run what gets out in").expect("stderr");
        return true;
    }
    let itself = std::env::current_exe().unwrap();
    let status = command(&[itself.to_str().unwrap(), "--exact", test, "--nocapture"]).unwrap();
    assert!(status.success(), "{status}");
    true
}

fn is_safe(sample: &Sample) -> bool {
    let consumes = sample.header("class:").is_some_and(|class| CONSUMING.contains(&class));
    let destroys =
        sample.header("control:") == Some("destructive") || DESTRUCTIVE.contains(&sample.name.as_str());
    !consumes && !destroys
}

/// The programs that make system calls; those of `QuickJS` cannot.
fn programs() -> Vec<(Sample, Level)> {
    let mut programs = Vec::new();
    for (suite, language) in
        [("hostile", Language::Python), ("own", Language::Python), ("own", Language::Bash)]
    {
        let levels: &[Level] =
            if language == Language::Bash { &[Level::Shell] } else { &[Level::Standard, Level::Lenient] };
        for sample in support::samples(suite, language).into_iter().filter(is_safe) {
            programs.extend(levels.iter().map(|level| (sample.clone(), *level)));
        }
    }
    programs
}

fn sandbox(scratch: &Path, child_exe: &str) -> Sandbox {
    let options = SandboxOptions {
        child_exe: child_exe.into(),
        levels: support::levels_with_timeout(TIMEOUT_MS),
        ..support::options(scratch)
    };
    Sandbox::new(options).unwrap()
}

/// The programs that escape from a child, by name, with their class.
fn escaping_programs(child_exe: &str, is_whole: bool) -> BTreeMap<String, String> {
    let scratch = tempfile::tempdir().unwrap();
    let mut sandbox = sandbox(scratch.path(), child_exe);
    for level in sandbox.report().levels {
        // The self-test notices the missing layer.
        let reason = level.reason.unwrap_or_default();
        let fine = if is_whole { level.able } else { reason.contains("self-test: a child could") };
        assert!(fine, "{}: '{reason}'", level.level);
    }
    if !is_whole {
        sandbox.skip_self_test();
    }
    let canary = Canary::set_up();
    let out = support::in_parallel(programs(), 8, |(sample, level)| {
        let mut program = Program::new(sample.language, level, sample.code.clone());
        program.language_check = false;
        program.timeout_ms = attacks::short_timeout(&sample);
        let record = sandbox.run(&program, &|| false);
        let class = sample.header("class:").unwrap_or_default().to_owned();
        escaped(&record).then_some((sample.name, class))
    });
    canary.remove();
    out.into_iter().flatten().collect()
}

fn assert_escapes(what: &str, out: &BTreeMap<String, String>, classes: &[&str]) {
    let total = programs().into_iter().map(|(sample, _)| sample.name).collect::<BTreeSet<_>>().len();
    println!("{what}: {} of {total} programs escape", out.len());
    for (name, class) in out {
        println!("  {class}: {name}");
    }
    assert!(out.len() >= LEAST, "{what}: only {} programs escape", out.len());
    for class in classes {
        assert!(out.values().any(|other| other == class), "{what}: no program of class {class} escapes");
    }
}

/// The same programs in the same namespaces: the missing layer alone makes the difference.
#[test]
fn both_layers_together_contain_every_program() {
    let _turn = support::exclusive();
    if runs_in_namespaces("ablation::both_layers_together_contain_every_program") {
        return;
    }
    let out = escaping_programs(env!("CARGO_BIN_EXE_nanoclaw-sandbox-child"), true);
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn landlock_alone_lets_programs_escape() {
    let _turn = support::exclusive();
    if runs_in_namespaces("ablation::landlock_alone_lets_programs_escape") {
        return;
    }
    let out = escaping_programs(env!("CARGO_BIN_EXE_nanoclaw-sandbox-landlock-only"), false);
    assert_escapes("landlock only", &out, &["network", "syscall", "process"]);
}

#[test]
fn system_call_filters_alone_let_programs_escape() {
    let _turn = support::exclusive();
    if runs_in_namespaces("ablation::system_call_filters_alone_let_programs_escape") {
        return;
    }
    let out = escaping_programs(env!("CARGO_BIN_EXE_nanoclaw-sandbox-seccomp-only"), false);
    assert_escapes("seccomp only", &out, &["file-read", "file-write"]);
}
