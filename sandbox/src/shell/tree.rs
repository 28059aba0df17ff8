//! The processes that a command leaves, and their end: also of those that forked twice and called setsid.
//!
//! Owns: the certainty. A supervisor is the subreaper of its command, so every descendant becomes its child at last; and
//! it stands in a landlock domain of its own, so that where signals are scoped one call ends all of them at once.

use std::io::{self, Read, Seek};

use rustix::process::{Pid, Signal};

use super::exit_of;
use crate::policy::SCOPE_ABI;
use crate::sys::{self, Reaped};

/// Where the kernel lists the children of the calling thread.
const CHILDREN: &str = "/proc/thread-self/children";

/// The descendants of this process.
#[derive(Debug)]
pub(super) struct Tree {
    /// Opened before landlock closes `/proc`.
    children: std::fs::File,
    has_scope: bool,
}

impl Tree {
    /// Of the calling process, before it has any.
    pub(super) fn open(landlock_abi: u32) -> io::Result<Self> {
        Ok(Self { children: std::fs::File::open(CHILDREN)?, has_scope: landlock_abi >= SCOPE_ABI })
    }

    /// Kills and reaps until there is nobody left; the exit code of `command` if it was among them.
    pub(super) fn end(&self, command: i32) -> Option<i32> {
        let mut code = None;
        loop {
            self.kill();
            // Waits for one: all that are there have been killed, and those of the dead come here. Then takes whatever else
            // has ended: killing goes through all processes, the dead ones of a fork bomb included.
            let mut waits = true;
            while let Ok(reaped) = sys::reap_any(waits) {
                waits = false;
                match reaped {
                    Reaped::Ended { pid, exit_code, signal } if pid == command => {
                        code = Some(exit_of(exit_code, signal));
                    }
                    Reaped::Ended { .. } => {}
                    Reaped::Running => break,
                    Reaped::Nobody => return code,
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
            for child in numbers(&text).into_iter().filter_map(Pid::from_raw) {
                // It may have ended by itself.
                rustix::process::kill_process(child, Signal::KILL).ok();
            }
        }
    }
}

/// The children of the calling thread.
pub(crate) fn children_of_this_thread() -> io::Result<Vec<i32>> {
    Ok(numbers(&std::fs::read_to_string(CHILDREN)?))
}

fn numbers(text: &str) -> Vec<i32> {
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}
