//! The optional layers in a real broker: reported, in force where the machine permits them, removed
//! afterwards.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nanoclaw_sandbox::{Language, Level, Program, RunStatus, Sandbox, SandboxOptions};

use crate::support;

fn shell(code: &str) -> Program {
    Program::new(Language::Bash, Level::Shell, code)
}

fn namespace_of(process: &str, kind: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{process}/ns/{kind}")).ok()
}

fn broker() -> String {
    support::processes_named("nanoclaw-broker").first().map(u32::to_string).unwrap_or_default()
}

/// Waits up to ten seconds for a condition.
#[expect(clippy::disallowed_methods, reason = "the test waits for other processes")]
fn eventually(event: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("timed out: {event}");
}

/// The number of run cgroups in a directory.
fn runs_in(cgroup_dir: &Path) -> usize {
    let entries = std::fs::read_dir(cgroup_dir).map(|entries| entries.flatten().collect::<Vec<_>>());
    entries.unwrap_or_default().iter().filter(|entry| entry.path().is_dir()).count()
}

#[test]
fn the_broker_reports_its_namespaces() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    for shell_network in [false, true] {
        let options = SandboxOptions { shell_network, ..support::options(scratch.path()) };
        let sandbox = Sandbox::new(options).unwrap();
        let report = sandbox.report();
        assert!(report.able(), "{report:#?}");
        assert_eq!(report, sandbox.report());
        let namespaces = &report.layers.namespaces;
        assert!(namespaces.len() >= 3, "{namespaces:?}");
        let network = namespaces.iter().find(|namespace| namespace.kind == "network").unwrap();
        assert!(!(shell_network && network.held), "commands may have the network: {network:?}");
        // Only root can inspect undumpable processes.
        for (kind, file) in [("network", "net"), ("ipc", "ipc"), ("uts", "uts")] {
            let in_force = namespaces.iter().any(|namespace| namespace.kind == kind && namespace.held);
            if let Some(broker_namespace) = namespace_of(&broker(), file) {
                assert_eq!(
                    in_force,
                    Some(broker_namespace) != namespace_of("self", file),
                    "{kind}: {namespaces:?}"
                );
            }
        }
    }
    support::assert_nothing_left(scratch.path());
}

#[test]
fn a_binary_that_is_not_a_broker_reports_no_layers() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let options =
        SandboxOptions { child_exe: PathBuf::from("/bin/true"), ..support::options(scratch.path()) };
    let report = Sandbox::new(options).unwrap().report();
    assert!(!report.able() && report.layers.namespaces.is_empty(), "{report:#?}");
    assert!(report.layers.cgroup.reason.is_some(), "{report:#?}");
}

#[test]
fn the_cgroup_of_a_command_ends_with_the_command() {
    let _turn = support::exclusive();
    let scratch = tempfile::tempdir().unwrap();
    let sandbox = support::sandbox(scratch.path());
    let Some(cgroup_dir) = sandbox.report().layers.cgroup.path else {
        writeln!(std::io::stderr(), "SKIPPED: {:?}", sandbox.report().layers.cgroup).expect("stderr");
        return;
    };
    let record = sandbox.run(&shell("echo x; sleep 77 & exit 3"), &|| false);
    assert_eq!((record.status, record.exit_code), (RunStatus::Error, Some(3)), "{record:#?}");
    eventually("the run's cgroup is gone", || runs_in(&cgroup_dir) == 0);

    // The cgroup ends the tree of a killed supervisor.
    std::thread::scope(|scope| {
        let run = scope.spawn(|| sandbox.run(&shell("setsid sleep 77 & setsid sleep 77 & wait"), &|| false));
        eventually("both processes run", || {
            support::guests().iter().filter(|name| name.ends_with("sleep")).count() == 2
        });
        assert_eq!(runs_in(&cgroup_dir), 1);
        let inside = std::fs::read_to_string(cgroup_dir.join("run-2/cgroup.procs")).unwrap();
        assert!(inside.lines().count() >= 4, "supervisor, shell and two more: {inside:?}");
        let supervisor = support::processes_named("nanoclaw-shell").first().copied().unwrap();
        let supervisor = rustix::process::Pid::from_raw(supervisor.cast_signed()).unwrap();
        rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
        let record = run.join().unwrap();
        assert_eq!((record.status, record.signal), (RunStatus::Crash, Some(9)), "{record:#?}");
    });
    eventually("no process is left", || support::guests().is_empty() && runs_in(&cgroup_dir) == 0);
    assert_eq!(sandbox.run(&shell("echo again"), &|| false).stdout, "again\n");

    // The same for a killed broker.
    let broker = rustix::process::Pid::from_raw(broker().parse().unwrap()).unwrap();
    rustix::process::kill_process(broker, rustix::process::Signal::KILL).unwrap();
    eventually("another broker", || sandbox.run(&shell("echo 1"), &|| false).status == RunStatus::Ok);
    assert!(!cgroup_dir.exists(), "{} is left", cgroup_dir.display());
    let cgroup_dir = sandbox.report().layers.cgroup.path.unwrap();
    assert!(cgroup_dir.exists());
    drop(sandbox);
    assert!(!cgroup_dir.exists(), "{} is left", cgroup_dir.display());
    support::assert_nothing_left(scratch.path());
}
