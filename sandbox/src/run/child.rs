//! The child of one run as the server holds it: its pipes, its pidfd, and the broker's report of its exit.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::RecvFlags;
use rustix::process::Signal;

use super::descendants::Descendants;
use crate::broker::{RunReply, receive};
use crate::error::SandboxError;
use crate::memory_file::{memory_file, sealed_memory_file};
use crate::process::ChildExit;
use crate::process::wait_until_readable;

/// How long the guest of a dead broker may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// A running child. Dropped before its exit was read, it is killed; the broker reaps it.
#[derive(Debug)]
pub(crate) struct RunChild {
    pid: i32,
    pidfd: OwnedFd,
    reply: OwnedFd,
    has_ended: bool,
    /// The broker has answered the cancellation.
    is_cancelled: bool,
    pipes: Option<[OwnedFd; 4]>,
    /// The signal of [`RunChild::kill`]: SIGTERM for a supervisor, so that it can end its tree first.
    pub(crate) end_signal: Signal,
}

/// Both ends of a run's pipes.
#[derive(Debug)]
pub(crate) struct RunPipes {
    /// The reading ends of standard output, standard error, frames and result.
    pub parent_ends: [OwnedFd; 4],
    /// The writing ends in the same order, then the program's text.
    pub child_ends: [OwnedFd; 5],
    /// A sixth descriptor for the child. Its purpose is in the request.
    pub extra: Option<OwnedFd>,
}

impl RunPipes {
    /// Creates the pipes, and a memory file with the program.
    pub(crate) fn new(code: &str) -> Result<Self, SandboxError> {
        let (stdout, stdout_end) = pipe("standard output")?;
        let (stderr, stderr_end) = pipe("standard error")?;
        let (frames, frames_end) = pipe("report")?;
        let (result, result_end) = pipe("report")?;
        let code = memory_file(code.as_bytes())
            .map_err(|source| SandboxError::MakeDescriptor { what: "program", source })?;
        Ok(Self {
            parent_ends: [stdout, stderr, frames, result],
            child_ends: [stdout_end, stderr_end, frames_end, result_end, code],
            extra: None,
        })
    }

    /// Adds a standard input with these bytes.
    pub(crate) fn with_stdin(mut self, bytes: &[u8]) -> Result<Self, SandboxError> {
        let file = sealed_memory_file(bytes)
            .map_err(|source| SandboxError::MakeDescriptor { what: "standard input", source })?;
        self.extra = Some(file);
        Ok(self)
    }
}

impl RunChild {
    /// The child that the broker has reported.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd, reply: OwnedFd, pipes: [OwnedFd; 4]) -> Self {
        Self {
            pid,
            pidfd,
            reply,
            has_ended: false,
            is_cancelled: false,
            pipes: Some(pipes),
            end_signal: Signal::KILL,
        }
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Another handle for signals.
    pub(crate) fn pidfd(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    /// The reading ends of its pipes. After one is closed, the guest can no longer write to that pipe.
    pub(crate) fn take_pipes(&mut self) -> Result<[OwnedFd; 4], SandboxError> {
        self.pipes.take().ok_or_else(|| SandboxError::Watch(io::ErrorKind::NotConnected.into()))
    }

    /// Becomes readable when the broker reports the exit, or is gone.
    pub(crate) fn exit_fd(&self) -> BorrowedFd<'_> {
        self.reply.as_fd()
    }

    /// Kills it; asks a supervisor to end its tree.
    pub(crate) fn kill(&self) {
        // It may have exited already.
        rustix::process::pidfd_send_signal(&self.pidfd, self.end_signal).ok();
    }

    /// Sends SIGKILL, to a supervisor too.
    pub(crate) fn kill_now(&self) {
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
    }

    /// Asks the broker to end the child, too. Its answer proves that the broker works.
    pub(crate) fn cancel(&self) {
        rustix::net::shutdown(&self.reply, rustix::net::Shutdown::Write).ok();
    }

    /// Whether the broker has answered the cancellation.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// The number of threads of the guest and its descendants; counting stops soon above `max`. 0 once it
    /// has exited.
    pub(crate) fn count_tasks(&self, max: u64) -> u64 {
        let tasks = Descendants::of(self.pid, max).tasks;
        // If it was reaped meanwhile, the process id may belong to another process.
        let has_exited = wait_until_readable(&self.pidfd, Duration::ZERO) != Ok(false);
        if has_exited { 0 } else { tasks }
    }

    /// Its exit, once [`RunChild::exit_fd`] is readable; `None` if the broker has only answered the
    /// cancellation. An error if the broker died.
    pub(crate) fn read_exit(&mut self) -> Result<Option<ChildExit>, SandboxError> {
        let packet = receive(&self.reply, RecvFlags::empty()).map_err(SandboxError::Watch)?;
        let reply =
            packet.map(|packet| packet.decode::<RunReply>()).transpose().map_err(SandboxError::Watch)?;
        if let Some(reply) = reply {
            let exit = reply.into_exit().map_err(SandboxError::Broker);
            self.is_cancelled |= matches!(exit, Ok(None));
            self.has_ended |= !matches!(exit, Ok(None));
            return exit;
        }
        self.has_ended = true;
        // Guests die with the broker; a command's supervisor ends its tree. Nothing runs when the error is
        // returned.
        wait_until_readable(&self.pidfd, EXIT_TIMEOUT).ok();
        Err(SandboxError::BrokerDied)
    }

    /// Waits until the child and all its processes are gone; false if the broker died before.
    pub(crate) fn wait_until_gone(mut self) -> bool {
        loop {
            match self.read_exit() {
                Ok(Some(exit)) if !exit.leaves_processes => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for RunChild {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
        }
    }
}

/// A pipe with a non-blocking reading end.
fn pipe(what: &'static str) -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let make = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((reader, writer))
    };
    make().map_err(|error| SandboxError::MakeDescriptor { what, source: error.into() })
}
