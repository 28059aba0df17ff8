//! Ends the processes of a command, including those that forked twice and called setsid.
//!
//! A supervisor is the subreaper of its command, so every descendant becomes its child at last. Where
//! landlock scopes signals, one call kills the whole domain of the supervisor at once.

use std::io::{self, Read, Seek};

use rustix::process::{Pid, Signal};

use crate::policy::SCOPE_ABI;
use crate::sys::{self, ReapOutcome};

/// Shells add this to the number of the signal that ended a command.
pub(super) const SIGNAL_EXIT: i32 = 128;

/// The kernel's list of the children of the calling thread.
const CHILDREN: &str = "/proc/thread-self/children";

/// The descendants of this process.
#[derive(Debug)]
pub(super) struct ProcessTree {
    /// Opened before landlock forbids `/proc`.
    children: std::fs::File,
    has_scope: bool,
}

impl ProcessTree {
    /// For the calling process, before it has children.
    pub(super) fn open(landlock_abi: u32) -> io::Result<Self> {
        Ok(Self { children: std::fs::File::open(CHILDREN)?, has_scope: landlock_abi >= SCOPE_ABI })
    }

    /// Kills and reaps until no child is left. Returns the exit code of `command` if it was one of them.
    pub(super) fn end(&self, command: i32) -> Option<i32> {
        let mut code = None;
        loop {
            self.kill();
            // Waits for one child: all have been killed, and the children of the dead come here. Then reaps
            // all others that have exited, because a kill also visits the dead processes of a fork bomb.
            let mut waits = true;
            while let Ok(reaped) = sys::reap_any(waits) {
                waits = false;
                match reaped {
                    ReapOutcome::Ended { pid, exit_code, signal } if pid == command => {
                        code = Some(exit_code_of(exit_code, signal));
                    }
                    ReapOutcome::Ended { .. } => {}
                    ReapOutcome::Running => break,
                    ReapOutcome::NoChildren => return code,
                }
            }
        }
    }

    fn kill(&self) {
        if self.has_scope {
            sys::kill_domain();
            return;
        }
        let mut text = String::new();
        let mut children = &self.children;
        if children.rewind().and_then(|()| children.read_to_string(&mut text)).is_ok() {
            for child in process_ids(&text).into_iter().filter_map(Pid::from_raw) {
                // It may have exited already.
                rustix::process::kill_process(child, Signal::KILL).ok();
            }
        }
    }
}

/// The exit code of a child as shells report it.
pub(super) fn exit_code_of(exit_code: Option<i32>, signal: Option<i32>) -> i32 {
    exit_code.or(signal.map(|signal| SIGNAL_EXIT + signal)).unwrap_or(SIGNAL_EXIT)
}

/// The children of the calling thread.
pub(crate) fn children_of_this_thread() -> io::Result<Vec<i32>> {
    Ok(process_ids(&std::fs::read_to_string(CHILDREN)?))
}

fn process_ids(text: &str) -> Vec<i32> {
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
