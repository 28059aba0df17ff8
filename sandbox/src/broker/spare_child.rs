//! A forked child that has no run yet.

use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal};

/// A child that waits for its run. It exits when its socket is closed.
pub(crate) struct SpareChild {
    pub(crate) pid: i32,
    /// Delivers the run.
    pub(crate) socket: OwnedFd,
}

impl SpareChild {
    /// Ends a child that has not been used. Returns its process id: it still has to be reaped.
    #[must_use]
    pub(crate) fn kill(&self) -> i32 {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may be dead already.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
        self.pid
    }
}
