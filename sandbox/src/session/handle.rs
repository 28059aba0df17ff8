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
use crate::scratch::{ScratchDir, ScratchRemover};

/// A running session. Dropped, it ends with everything that it has started; its private directory is removed.
#[derive(Debug)]
pub struct SandboxSession {
    pub(super) stdin: Option<File>,
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
    pub(super) state: Arc<SessionState>,
    pub(super) pidfd: OwnedFd,
    pub(super) monitor: Option<JoinHandle<()>>,
    pub(super) own_dir: Option<ScratchDir>,
    pub(super) remover: Arc<ScratchRemover>,
    pub(super) _slot: SessionSlot,
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

    /// How it ended; `None` while it runs. After the end, none of its processes is left.
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
        if let Some(monitor) = self.monitor.take() {
            // The monitor does not panic; if it did, dropping its guest would end the tree.
            monitor.join().ok();
        }
        if let Some(own_dir) = self.own_dir.take() {
            // A directory that cannot be renamed is removed at a later start.
            own_dir.discard(&self.remover).ok();
        }
    }
}
