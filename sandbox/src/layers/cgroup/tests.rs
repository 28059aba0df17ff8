//! Cgroups against the real kernel where root has a writable v2 tree, and the parsing anywhere.

use std::io::Read;
use std::os::fd::OwnedFd;

use super::super::OptionalLayers;
use super::super::tests::{NOBODY, all_gone, alone, become_nobody, in_child, lacks_root, start_daemon};
use super::*;

/// A cgroup for this test below ours; `None`, with a message, without a writable tree.
fn own_base(what: &str) -> Option<PathBuf> {
    if lacks_root(what) {
        return None;
    }
    let below = match cgroup_tree::find(0) {
        Ok(base) => base.path,
        Err(error) => {
            eprintln!("SKIPPED: {what}: {error}");
            return None;
        }
    };
    let base = below.join(format!("test-of-nanoclaw-{}", std::process::id()));
    make_directory(&base).ok()?;
    Some(base)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn must(fact: bool, what: &str) -> Result<(), String> {
    if fact { Ok(()) } else { Err(what.to_owned()) }
}

fn is_populated(run: &RunCgroup) -> bool {
    fs::read_to_string(run.path.join("cgroup.events")).is_ok_and(|events| number(&events, "populated") > 0)
}

fn has(cgroups: &BrokerCgroup, controller: &str) -> bool {
    cgroups.controllers.contains(&controller)
}

/// A child with a daemon below it, started with `start`. The pipe is closed when both have exited.
fn start_tree(start: impl FnOnce() -> io::Result<ForkResult>) -> Result<(i32, io::PipeReader), String> {
    let (mut reader, writer) = io::pipe().map_err(words)?;
    let writer = OwnedFd::from(writer);
    let ForkResult::Parent(pid) = start().map_err(words)? else {
        start_daemon(&writer).ok();
        File::from(rustix::io::dup(&writer).unwrap()).write_all(b"x").ok();
        rustix::event::poll(&mut [], None).ok();
        sys::exit_now(0);
    };
    drop(writer);
    reader.read_exact(&mut [0; 1]).map_err(words)?;
    Ok((pid, reader))
}

#[test]
fn a_run_is_killed_whole_and_leaves_nothing() {
    let _turn = alone();
    let Some(base) = own_base("killing a cgroup") else { return };
    in_child(|| {
        let cgroups = BrokerCgroup::create_in(&CgroupBase { path: base.clone(), is_delegated: false })
            .map_err(words)?;
        must(!has(&cgroups, "memory") && cgroups.report().reason.is_some(), "controllers from nowhere")?;
        for way in ["fork", "join", "each"] {
            let run = cgroups.create(way, Some(1 << 30), Some(8)).map_err(words)?;
            let (pid, reader) = start_tree(|| match way {
                "fork" => run.fork(),
                _ => sys::fork().inspect(|forked| {
                    if matches!(forked, ForkResult::Child) {
                        run.join().ok();
                    }
                }),
            })?;
            must(is_populated(&run) && !all_gone(&reader, 0), "nobody is in it")?;
            must(!run.try_remove(), "removed around living processes")?;
            must(run.memory_events() == MemoryEvents::default(), "counts from nowhere")?;
            if way == "each" { kill_each(&run.path) } else { run.kill() }.map_err(words)?;
            must(all_gone(&reader, 10), "the daemon lives on")?;
            sys::reap(pid).map_err(words)?;
            remove(&run.path).map_err(words)?;
            must(!run.path.exists(), "the cgroup is left")?;
            run.kill().map_err(words)?;
            must(run.try_remove(), "what is gone is there")?;
        }
        for bad in ["", "..", "a/b"] {
            must(cgroups.create(bad, None, None).is_err(), bad)?;
        }
        cgroups.remove();
        must(!cgroups.path.exists(), "the parent is left")?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

#[test]
fn a_successor_sweeps_what_a_dead_broker_left_and_no_one_else_s() {
    let _turn = alone();
    let Some(base) = own_base("sweeping") else { return };
    in_child(|| {
        let place = CgroupBase { path: base.clone(), is_delegated: false };
        let living = BrokerCgroup::create_in(&place).map_err(words)?;
        let dead = base.join(format!("{PREFIX}{}-1", std::process::id()));
        let (other, run) = (base.join("other"), dead.join("run"));
        for path in [&dead, &run, &other] {
            make_directory(path).map_err(words)?;
        }
        let left = RunCgroup::open(run).map_err(words)?;
        let (pid, reader) = start_tree(|| left.fork())?;
        sweep(&base);
        must(all_gone(&reader, 10) && !dead.exists(), "left")?;
        must(living.path.exists() && other.exists(), "too much")?;
        sys::reap(pid).map_err(words)?;
        living.remove();
        remove(&other).map_err(words)?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

#[test]
fn in_a_delegated_cgroup_the_server_moves_to_its_leaf() {
    let _turn = alone();
    let Some(base) = own_base("a delegated cgroup") else { return };
    in_child(|| {
        let place = CgroupBase { path: base.clone(), is_delegated: true };
        let run = RunCgroup::open(base.clone()).map_err(words)?;
        let (pid, reader) = start_tree(|| run.fork())?;
        let cgroups = BrokerCgroup::create_in(&place).map_err(words)?;
        let inside = fs::read_to_string(base.join("server/cgroup.procs")).map_err(words)?;
        must(inside.lines().count() == 2 && inside.lines().any(|line| line == pid.to_string()), &inside)?;
        // This machine's v2 tree has neither controller: the reason says so.
        must(
            cgroups.report().reason.is_some() != (has(&cgroups, "memory") && has(&cgroups, "pids")),
            "unsaid",
        )?;
        kill(&base).map_err(words)?;
        must(all_gone(&reader, 10), "left")?;
        sys::reap(pid).map_err(words)?;
        cgroups.remove();
        remove(&base.join(SERVER_LEAF)).map_err(words)?;
        Ok(String::new())
    });
    remove(&base).unwrap();
}

/// Does what `Delegate=` of a unit does for a service with its own user.
fn hand_over(base: &Path) {
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(base.join(file), Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// Acts as a broker inside a user namespace: enters all layers, then kills the tree of a run.
fn live_as_broker(server_leaf: &Path) -> Result<(), String> {
    let layers = OptionalLayers::enter(false);
    let cgroups = layers.cgroup.ok_or_else(|| format!("{:?}", layers.report.cgroup))?;
    must(layers.report.cgroup.reason.as_ref().is_none_or(|why| !why.contains("delegated")), "not delegated")?;
    let inside = fs::read_to_string(server_leaf.join("cgroup.procs")).map_err(words)?;
    must(inside.lines().count() == 2, "server and broker are not in the leaf")?;
    for way in ["fork", "join"] {
        let run = cgroups.create(way, None, None).map_err(words)?;
        let (pid, reader) = start_tree(|| match way {
            "fork" => run.fork(),
            _ => sys::fork().inspect(|forked| {
                if matches!(forked, ForkResult::Child) {
                    run.join().ok();
                }
            }),
        })?;
        must(is_populated(&run), "nobody is in it")?;
        run.kill().map_err(words)?;
        must(all_gone(&reader, 10), "left")?;
        sys::reap(pid).map_err(words)?;
        remove(&run.path).map_err(words)?;
    }
    cgroups.remove();
    Ok(())
}

#[test]
fn a_service_with_a_user_of_its_own_uses_what_was_delegated_twice() {
    let _turn = alone();
    let Some(base) = own_base("a delegation to another user") else { return };
    hand_over(&base);
    in_child(|| {
        RunCgroup::open(base.clone()).and_then(|own| own.join()).map_err(words)?;
        become_nobody()?;
        let leaf = base.join(SERVER_LEAF);
        // The second broker finds the server in the leaf where the first one put it.
        for _ in 0..2 {
            let (mut reader, mut writer) = io::pipe().map_err(words)?;
            let ForkResult::Parent(pid) = sys::fork().map_err(words)? else {
                let said = live_as_broker(&leaf).err().unwrap_or_default();
                writer.write_all(said.as_bytes()).ok();
                sys::exit_now(0);
            };
            drop(writer);
            let mut said = String::new();
            reader.read_to_string(&mut said).map_err(words)?;
            sys::reap(pid).map_err(words)?;
            must(said.is_empty(), &said)?;
        }
        Ok(String::new())
    });
    remove(&base.join(SERVER_LEAF)).unwrap();
    remove(&base).unwrap();
}

#[test]
fn names_show_whether_the_broker_is_alive() {
    let own = std::process::id();
    let started = cgroup_tree::started_at(own).unwrap();
    assert!(!is_leftover(&format!("nanoclaw-{own}-{started}")));
    assert!(is_leftover(&format!("nanoclaw-{own}-1{started}")), "the number was given again");
    assert!(is_leftover(&format!("nanoclaw-{}-5", u32::MAX)));
    for other in ["nanoclaw", "nanoclaw-run", "nanoclaw-x-1", "server", "nanoclaw.service"] {
        assert!(!is_leftover(other), "{other}");
    }
}

#[test]
fn the_kernel_s_counts_are_read() {
    let text = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n";
    assert_eq!(MemoryEvents::parse(text), MemoryEvents { oom_kill: 2 });
    assert_eq!(MemoryEvents::parse(""), MemoryEvents::default());
    assert_eq!(number("populated 1\nfrozen 0\n", "populated"), 1);
}

#[test]
fn errors_name_the_missing_part_and_give_advice() {
    let path = PathBuf::from("/sys/fs/cgroup/x");
    let read_only = CgroupError::ReadOnly { path: path.clone() };
    assert!(read_only.to_string().contains("read-only"));
    assert!(read_only.advice().unwrap().contains("Delegate="));
    let denied = CgroupError::Denied { path, source: io::ErrorKind::PermissionDenied.into() };
    assert!(denied.advice().unwrap().contains("Delegate="));
    assert!(CgroupError::Absent.advice().is_some());
}
