//! One run's child, as the server holds it: its pipes, its pidfd, and the broker's word on its end.
//!
//! Owns: the child's life. Dropped before its end was seen, it is killed; the broker reaps it.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::RecvFlags;
use rustix::process::Signal;

use crate::broker::{Reply, receive, wait_until_readable};
use crate::error::SandboxError;
use crate::sys::Ended;

/// How long the guest of a dead broker may take to die.
const DYING: Duration = Duration::from_secs(2);

/// A running child.
#[derive(Debug)]
pub(crate) struct Guest {
    pid: i32,
    pidfd: OwnedFd,
    reply: OwnedFd,
    has_ended: bool,
    pipes: Option<[OwnedFd; 4]>,
    last_signal: Signal,
}

/// Our ends of a run's descriptors, and the other ones, for the child.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The reading ends of standard output, standard error, frames and words.
    pub ours: [OwnedFd; 4],
    /// The writing ends in the same order, then the program's text.
    pub theirs: [OwnedFd; 5],
    /// What the order speaks of beyond them, for the child.
    pub extra: Option<OwnedFd>,
}

impl Ends {
    /// Pipes, and a memory file with the program.
    pub(crate) fn make(code: &str) -> Result<Self, SandboxError> {
        let (stdout, stdout_end) = pipe("standard output")?;
        let (stderr, stderr_end) = pipe("standard error")?;
        let (frames, frames_end) = pipe("report")?;
        let (words, words_end) = pipe("report")?;
        let code = memory_file(code.as_bytes())
            .map_err(|source| SandboxError::MakeDescriptor { what: "program", source })?;
        Ok(Self {
            ours: [stdout, stderr, frames, words],
            theirs: [stdout_end, stderr_end, frames_end, words_end, code],
            extra: None,
        })
    }

    /// The same with a standard input that holds these bytes.
    pub(crate) fn with_stdin(mut self, bytes: &[u8]) -> Result<Self, SandboxError> {
        let file = sealed_file(bytes)
            .map_err(|source| SandboxError::MakeDescriptor { what: "standard input", source })?;
        self.extra = Some(file);
        Ok(self)
    }

    /// The same with the guest's end of its host calls.
    pub(crate) fn with_host(mut self, socket: OwnedFd) -> Self {
        self.extra = Some(socket);
        self
    }
}

/// A memory file that nobody can change any more, nor start as a program: landlock lets files without a name pass.
fn sealed_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, Mode, SealFlags};
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(rustix::fs::memfd_create("nanoclaw-input", flags)?);
    file.write_all(bytes)?;
    file.rewind()?;
    rustix::fs::fchmod(&file, Mode::RUSR)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// A file without a name that holds these bytes, rewound.
pub(crate) fn memory_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let descriptor = rustix::fs::memfd_create("nanoclaw", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(descriptor);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

impl Guest {
    /// The child that a run's broker has announced.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd, reply: OwnedFd, pipes: [OwnedFd; 4]) -> Self {
        Self { pid, pidfd, reply, has_ended: false, pipes: Some(pipes), last_signal: Signal::KILL }
    }

    /// Lets a shell's supervisor end its whole tree before it goes itself: the first signal asks, the next one kills.
    pub(crate) fn asked_first(mut self) -> Self {
        self.last_signal = Signal::TERM;
        self
    }

    /// Another handle to signal it with.
    pub(crate) fn pidfd(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    /// The reading ends of its pipes. Whoever closes one ends the guest's writing.
    pub(crate) fn take_pipes(&mut self) -> Result<[OwnedFd; 4], SandboxError> {
        self.pipes.take().ok_or_else(|| SandboxError::Watch(io::ErrorKind::NotConnected.into()))
    }

    /// Becomes readable when the broker has something to say of its end, or is gone.
    pub(crate) fn end(&self) -> BorrowedFd<'_> {
        self.reply.as_fd()
    }

    /// Ends it, or asks a supervisor to end its tree.
    pub(crate) fn kill(&self) {
        // It may be gone already; that is what is wanted.
        rustix::process::pidfd_send_signal(&self.pidfd, self.last_signal).ok();
    }

    /// Ends it whatever it is.
    pub(crate) fn kill_now(&self) {
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
    }

    /// How many threads it and its descendants have, at least up to `most` of them; none once it is gone.
    pub(crate) fn tasks(&self, most: u64) -> u64 {
        let mut count = 0;
        let mut pending = vec![self.pid];
        while let Some(pid) = pending.pop()
            && count <= most
        {
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                count += 1;
                let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
                pending.extend(children.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
            }
        }
        // Reaped in the meantime, the number may have been somebody else's.
        if self.is_gone() { 0 } else { count }
    }

    fn is_gone(&self) -> bool {
        wait_until_readable(&self.pidfd, Duration::ZERO) != Ok(false)
    }

    /// What it used, once [`Guest::end`] is readable. An error if the broker died with it.
    pub(crate) fn ended(&mut self) -> Result<Ended, SandboxError> {
        let packet = receive(&self.reply, RecvFlags::empty()).map_err(SandboxError::Watch)?;
        let reply = packet.map(|packet| packet.decode::<Reply>()).transpose().map_err(SandboxError::Watch)?;
        self.has_ended = true;
        if let Some(reply) = reply {
            return reply.into_ended().map_err(SandboxError::Broker);
        }
        // Its guests die with it, a command's tree by its supervisor's hand: nothing runs on when that is told.
        wait_until_readable(&self.pidfd, DYING).ok();
        Err(SandboxError::BrokerDied)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if !self.has_ended {
            self.kill();
        }
    }
}

/// A pipe: our non-blocking reading end, and a writing end.
fn pipe(what: &'static str) -> Result<(OwnedFd, OwnedFd), SandboxError> {
    let make = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((reader, writer))
    };
    make().map_err(|error| SandboxError::MakeDescriptor { what, source: error.into() })
}
