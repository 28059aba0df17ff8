//! A child that waits for its run: everything that needs no run to be known is done.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

use crate::sys;

/// One of them. It is the broker's, and no table of runs holds it yet.
pub(super) struct Spare {
    /// Its process id.
    pub(super) pid: i32,
    /// Where it waits. Closed, it ends.
    pub(super) socket: OwnedFd,
}

impl Spare {
    /// Ends it unused.
    pub(super) fn bury(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may be dead already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        sys::reap(self.pid).ok();
    }
}
