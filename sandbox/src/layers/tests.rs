//! Shared by the tests of the layers: forked children with one thread, and waiting for the exit of a whole
//! tree.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{DumpableBehavior, Gid, Uid, geteuid};

use super::{LayersReport, OptionalLayers};
use crate::sys::{self, ForkResult};

/// A user that is not root.
pub(super) const NOBODY: u32 = 65_534;

/// One test at a time: a fork copies the pipes of other tests, which wait until all copies are closed.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a test must be skipped for lack of root, with a message.
pub(super) fn lacks_root(subject: &str) -> bool {
    let is_missing = !geteuid().is_root();
    if is_missing {
        eprintln!("SKIPPED: {subject} needs root");
    }
    is_missing
}

/// Runs `body` in a forked child with one thread and returns its text. Fails the test if `body` fails.
pub(super) fn in_child(body: impl FnOnce() -> Result<String, String>) -> String {
    let (mut reader, mut writer) = io::pipe().unwrap();
    match sys::fork().unwrap() {
        ForkResult::Child => {
            drop(reader);
            let text = body().unwrap_or_else(|error| format!("WRONG: {error}"));
            writer.write_all(text.as_bytes()).ok();
            sys::exit_now(0);
        }
        ForkResult::Parent(pid) => {
            drop(writer);
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            let ended = sys::reap(pid).unwrap();
            assert_eq!((ended.exit_code, ended.signal), (Some(0), None), "{text}");
            assert!(!text.starts_with("WRONG"), "{text}");
            text
        }
    }
}

/// Becomes a user that is not root. A user change makes a process undumpable, which a started server is not.
pub(super) fn become_nobody() -> Result<(), String> {
    let error_text = |error: rustix::io::Errno| error.to_string();
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_res_gid(group, group, group).map_err(error_text)?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(error_text)?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(error_text)
}

/// Starts a process that leaves its parent, session and group, and keeps `life` open until it exits.
pub(super) fn start_daemon(life: &OwnedFd) -> io::Result<()> {
    if let ForkResult::Parent(pid) = sys::fork()? {
        return sys::reap(pid).map(drop);
    }
    rustix::process::setsid().ok();
    if let Ok(ForkResult::Child) = sys::fork() {
        let _open_end = rustix::io::dup(life);
        // Longer than any test: a test finds a process that survives.
        rustix::event::poll(&mut [], Some(&Timespec { tv_sec: 60, tv_nsec: 0 })).ok();
    }
    sys::exit_now(0);
}

/// Whether every process with the other end exits within `wait_s` seconds and a tenth.
pub(super) fn all_exited(reader: &impl std::os::fd::AsFd, wait_s: i64) -> bool {
    let mut ends = [PollFd::new(reader, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait_s, tv_nsec: 100_000_000 };
    rustix::event::poll(&mut ends, Some(&wait)).is_ok_and(|ready| ready == 1)
}

#[test]
fn all_optional_layers_are_entered_and_reported() {
    let _turn = alone();
    let text = in_child(|| {
        let layers = OptionalLayers::enter(false);
        if let Some(cgroup) = &layers.cgroup {
            cgroup.remove();
        }
        serde_json::to_string(&layers.report).map_err(|error| error.to_string())
    });
    let report: LayersReport = serde_json::from_str(&text).unwrap();
    assert!(report.namespaces.len() >= 3, "{report:?}");
    for namespace in &report.namespaces {
        assert_eq!(namespace.held, namespace.reason.is_none(), "{namespace:?}");
    }
    let full = report.cgroup.path.is_some() && report.cgroup.controllers.len() == 2;
    assert_eq!(full, report.cgroup.reason.is_none(), "the reason names every missing part: {report:?}");
}
