//! The opener's handle of a running session.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::Signal;

use super::monitor::SessionState;
use super::registry::SessionSlot;
use super::spec::SessionEnd;
use crate::run::{RunChild, keep_until_gone};
use crate::scratch::{ScratchDir, ScratchRemover};

/// A running session. Dropped, it ends with everything that it has started; its private directory is removed.
#[derive(Debug)]
pub struct SandboxSession {
    pub(super) stdin: Option<File>,
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
    pub(super) state: Arc<SessionState>,
    pub(super) pidfd: OwnedFd,
    /// Returns the supervisor if processes of the session are left.
    pub(super) monitor: Option<JoinHandle<Option<RunChild>>>,
    pub(super) own_dir: Option<ScratchDir>,
    pub(super) remover: Arc<ScratchRemover>,
    pub(super) slot: Option<SessionSlot>,
}

impl SandboxSession {
    /// The blocking writing end of its standard input; once. Dropped, the program reads end of file.
    pub fn take_stdin(&mut self) -> Option<File> {
        self.stdin.take()
    }

    /// The blocking reading end of its standard output; once. The program blocks on a full pipe until
    /// it is read.
    pub fn take_stdout(&mut self) -> Option<File> {
        self.stdout.take()
    }

    /// The blocking reading end of its standard error; once.
    pub fn take_stderr(&mut self) -> Option<File> {
        self.stderr.take()
    }

    /// How it ended; `None` while it runs. After the end, none of its processes is left, except killed ones
    /// that wait for a disk: these keep the session's place.
    pub fn try_wait(&self) -> Option<SessionEnd> {
        self.state.end()
    }

    /// Waits for its end, at most `timeout`.
    pub fn wait_for(&self, timeout: Duration) -> Option<SessionEnd> {
        self.state.wait_for(timeout)
    }

    /// Waits for its end.
    pub fn wait(&self) -> SessionEnd {
        self.state.wait()
    }

    /// Ends it with everything that it has started. Does not wait: see [`SandboxSession::wait`].
    pub fn kill(&self) {
        self.state.request_end();
        // It may have exited already. The monitor sends SIGKILL if this signal does not end it.
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::TERM).ok();
    }
}

impl Drop for SandboxSession {
    fn drop(&mut self) {
        if self.try_wait().is_none() {
            self.kill();
        }
        // The monitor does not panic; if it did, dropping its guest would end the tree.
        let left = self.monitor.take().and_then(|monitor| monitor.join().ok().flatten());
        match (left, self.own_dir.take()) {
            (Some(child), own_dir) => keep_until_gone(child, self.slot.take(), own_dir, &self.remover),
            (None, Some(own_dir)) => own_dir.discard(&self.remover),
            (None, None) => {}
        }
    }
}
