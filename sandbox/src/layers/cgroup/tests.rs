//! Cgroups against the real kernel where root has a writable v2 tree, and the parsing anywhere.

use std::io::Read;
use std::os::fd::OwnedFd;

use super::super::OptionalLayers;
use super::super::tests::{NOBODY, all_exited, alone, become_nobody, in_child, lacks_root, start_daemon};
use super::*;

/// A cgroup for this test below ours; `None`, with a message, without a writable tree.
fn own_base(subject: &str) -> Option<PathBuf> {
    if lacks_root(subject) {
        return None;
    }
    let below = match cgroup_tree::find(0) {
        Ok(base) => base.path,
        Err(error) => {
            eprintln!("SKIPPED: {subject}: {error}");
            return None;
        }
    };
    let base = below.join(format!("test-of-nanoclaw-{}", std::process::id()));
    make_directory(&base).ok()?;
    Some(base)
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn ensure(condition: bool, message: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(message.to_owned()) }
}

fn is_populated(run: &RunCgroup) -> bool {
    fs::read_to_string(run.path.join("cgroup.events")).is_ok_and(|events| number(&events, "populated") > 0)
}

fn has(cgroups: &BrokerCgroup, controller: &str) -> bool {
    cgroups.controllers.contains(&controller)
}

/// A child with a daemon below it, started with `start`. The pipe is closed when both have exited.
fn start_tree(start: impl FnOnce() -> io::Result<ForkResult>) -> Result<(i32, io::PipeReader), String> {
    let (mut reader, writer) = io::pipe().map_err(error_text)?;
    let writer = OwnedFd::from(writer);
    let ForkResult::Parent(pid) = start().map_err(error_text)? else {
        start_daemon(&writer).ok();
        File::from(rustix::io::dup(&writer).unwrap()).write_all(b"x").ok();
        rustix::event::poll(&mut [], None).ok();
        sys::exit_now(0);
    };
    drop(writer);
    reader.read_exact(&mut [0; 1]).map_err(error_text)?;
    Ok((pid, reader))
}

#[test]
fn killing_a_run_ends_all_its_processes_and_removes_its_cgroup() {
    let _turn = alone();
    let Some(base) = own_base("killing a cgroup") else { return };
    in_child(|| {
        let cgroups = BrokerCgroup::create_in(&CgroupBase { path: base.clone(), is_delegated: false })
            .map_err(error_text)?;
        ensure(
            !has(&cgroups, "memory") && cgroups.report().reason.is_some(),
            "controllers that nobody enabled",
        )?;
        for method in ["fork", "join", "each"] {
            let run = cgroups.create(method, Some(1 << 30), Some(8)).map_err(error_text)?;
            let (pid, reader) = start_tree(|| match method {
                "fork" => run.fork(),
                _ => sys::fork().inspect(|forked| {
                    if matches!(forked, ForkResult::Child) {
                        run.join().ok();
                    }
                }),
            })?;
            ensure(is_populated(&run) && !all_exited(&reader, 0), "the cgroup is empty")?;
            ensure(!run.try_remove(), "removed around living processes")?;
            ensure(run.memory_events() == MemoryEvents::default(), "counts before any event")?;
            if method == "each" { kill_each(&run.path) } else { run.kill() }.map_err(error_text)?;
            ensure(all_exited(&reader, 10), "the daemon lives on")?;
            sys::reap(pid).map_err(error_text)?;
            remove(&run.path).map_err(error_text)?;
            ensure(!run.path.exists(), "the cgroup is left")?;
            run.kill().map_err(error_text)?;
            ensure(run.try_remove(), "a removed cgroup exists")?;
        }
        for bad in ["", "..", "a/b"] {
            ensure(cgroups.create(bad, None, None).is_err(), bad)?;
        }
        cgroups.remove();
        ensure(!cgroups.path.exists(), "the parent is left")?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

#[test]
fn cgroups_of_dead_brokers_are_removed_and_others_are_kept() {
    let _turn = alone();
    let Some(base) = own_base("sweeping") else { return };
    in_child(|| {
        let cgroup_base = CgroupBase { path: base.clone(), is_delegated: false };
        let live_broker = BrokerCgroup::create_in(&cgroup_base).map_err(error_text)?;
        let dead = base.join(format!("{PREFIX}{}-1", std::process::id()));
        let (unrelated, run) = (base.join("other"), dead.join("run"));
        for path in [&dead, &run, &unrelated] {
            make_directory(path).map_err(error_text)?;
        }
        let leftover = RunCgroup::open(run).map_err(error_text)?;
        let (pid, reader) = start_tree(|| leftover.fork())?;
        sweep(&base);
        ensure(all_exited(&reader, 10) && !dead.exists(), "the dead broker's cgroup is left")?;
        ensure(live_broker.path.exists() && unrelated.exists(), "an unrelated cgroup was removed")?;
        sys::reap(pid).map_err(error_text)?;
        live_broker.remove();
        remove(&unrelated).map_err(error_text)?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

#[test]
fn in_a_delegated_cgroup_the_server_moves_to_its_leaf() {
    let _turn = alone();
    let Some(base) = own_base("a delegated cgroup") else { return };
    in_child(|| {
        let cgroup_base = CgroupBase { path: base.clone(), is_delegated: true };
        let run = RunCgroup::open(base.clone()).map_err(error_text)?;
        let (pid, reader) = start_tree(|| run.fork())?;
        let cgroups = BrokerCgroup::create_in(&cgroup_base).map_err(error_text)?;
        let inside = fs::read_to_string(base.join("server/cgroup.procs")).map_err(error_text)?;
        ensure(inside.lines().count() == 2 && inside.lines().any(|line| line == pid.to_string()), &inside)?;
        // This machine's v2 tree has neither controller, which the reason must state.
        ensure(
            cgroups.report().reason.is_some() != (has(&cgroups, "memory") && has(&cgroups, "pids")),
            "no reason for a missing controller",
        )?;
        kill(&base).map_err(error_text)?;
        ensure(all_exited(&reader, 10), "a process is left")?;
        sys::reap(pid).map_err(error_text)?;
        cgroups.remove();
        remove(&base.join(SERVER_LEAF)).map_err(error_text)?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

/// Gives a cgroup to another user, as `Delegate=` of a unit does.
fn hand_over(base: &Path) {
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(base.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Acts as a broker inside a user namespace: enters all layers, then kills the tree of a run.
fn live_as_broker(server_leaf: &Path) -> Result<(), String> {
    let layers = OptionalLayers::enter(false);
    let cgroups = layers.cgroup.ok_or_else(|| format!("{:?}", layers.report.cgroup))?;
    ensure(
        layers.report.cgroup.reason.as_ref().is_none_or(|reason| !reason.contains("delegated")),
        "not delegated",
    )?;
    let inside = fs::read_to_string(server_leaf.join("cgroup.procs")).map_err(error_text)?;
    ensure(inside.lines().count() == 2, "server and broker are not in the leaf")?;
    for method in ["fork", "join"] {
        let run = cgroups.create(method, None, None).map_err(error_text)?;
        let (pid, reader) = start_tree(|| match method {
            "fork" => run.fork(),
            _ => sys::fork().inspect(|forked| {
                if matches!(forked, ForkResult::Child) {
                    run.join().ok();
                }
            }),
        })?;
        ensure(is_populated(&run), "the cgroup is empty")?;
        run.kill().map_err(error_text)?;
        ensure(all_exited(&reader, 10), "a process is left")?;
        sys::reap(pid).map_err(error_text)?;
        remove(&run.path).map_err(error_text)?;
    }
    cgroups.remove();
    Ok(())
}

#[test]
fn a_non_root_service_can_reuse_its_delegated_cgroup() {
    let _turn = alone();
    let Some(base) = own_base("a delegation to another user") else { return };
    hand_over(&base);
    in_child(|| {
        RunCgroup::open(base.clone()).and_then(|cgroup| cgroup.join()).map_err(error_text)?;
        become_nobody()?;
        let leaf = base.join(SERVER_LEAF);
        // The second broker finds the server in the leaf where the first one put it.
        for _ in 0..2 {
            let (mut reader, mut writer) = io::pipe().map_err(error_text)?;
            let ForkResult::Parent(pid) = sys::fork().map_err(error_text)? else {
                let failure = live_as_broker(&leaf).err().unwrap_or_default();
                writer.write_all(failure.as_bytes()).ok();
                sys::exit_now(0);
            };
            drop(writer);
            let mut failure = String::new();
            reader.read_to_string(&mut failure).map_err(error_text)?;
            sys::reap(pid).map_err(error_text)?;
            ensure(failure.is_empty(), &failure)?;
        }
        Ok(String::new())
    });
    remove(&base.join(SERVER_LEAF)).unwrap();
    remove(&base).unwrap();
}

#[test]
fn a_cgroup_name_shows_whether_its_broker_is_alive() {
    let own_pid = std::process::id();
    let start_time = cgroup_tree::started_at(own_pid).unwrap();
    assert!(!is_leftover(&format!("nanoclaw-{own_pid}-{start_time}")));
    assert!(is_leftover(&format!("nanoclaw-{own_pid}-1{start_time}")), "the process id was reused");
    assert!(is_leftover(&format!("nanoclaw-{}-5", u32::MAX)));
    for name in ["nanoclaw", "nanoclaw-run", "nanoclaw-x-1", "server", "nanoclaw.service"] {
        assert!(!is_leftover(name), "{name}");
    }
}

#[test]
fn cgroup_event_counts_are_parsed() {
    let text = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
    assert_eq!(MemoryEvents::parse(text), MemoryEvents { oom_kill: 2 });
    assert_eq!(MemoryEvents::parse(""), MemoryEvents::default());
    assert_eq!(number("populated 1\nfrozen 0\n", "populated"), 1);
}

#[test]
fn cgroup_errors_name_the_cause_and_give_advice() {
    let path = PathBuf::from("/sys/fs/cgroup/x");
    let read_only = CgroupError::ReadOnly { path: path.clone() };
    assert!(read_only.to_string().contains("read-only"));
    assert!(read_only.advice().unwrap().contains("Delegate="));
    let denied = CgroupError::Denied { path, source: io::ErrorKind::PermissionDenied.into() };
    assert!(denied.advice().unwrap().contains("Delegate="));
    assert!(CgroupError::Absent.advice().is_some());
}

/// Another thread could hold a lock of the C library, which a raw clone copies and nobody releases.
#[test]
fn a_process_with_several_threads_is_not_cloned() {
    let directory = fs::File::open("/").unwrap();
    let cloned = std::thread::scope(|scope| {
        scope.spawn(|| crate::sys::fork_into_cgroup(directory.as_fd())).join().unwrap()
    });
    assert!(error_text(cloned.unwrap_err()).contains("one thread"));
}
