//! Starts a child and holds its ends: the seam behind which a broker with zygotes can stand instead.
//!
//! Owns: the child's life. Dropped before its end was seen, it is killed and reaped.

use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal};

use crate::child::{CHILD_MARKER, FRAMES_DESCRIPTOR, WORDS_DESCRIPTOR};
use crate::error::Error;
use crate::request::Request;
use crate::sys::{self, Ended};

/// The lowest number that a descriptor handed over may have here: clear of every number it gets in the child.
const LOWEST_OWN_NUMBER: i32 = 16;

/// A running child.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    pidfd: OwnedFd,
    reaped: bool,
    pipes: Option<[OwnedFd; 4]>,
}

/// Starts a sandboxed child with its assignment.
pub(crate) fn spawn(exe: &Path, request: &Request) -> Result<Child, Error> {
    let assignment = memory_file(request)?;
    let mut command = new_command(exe);
    command.arg(CHILD_MARKER).env_clear().stdin(assignment);
    start(command)
}

/// A command; the only place of the crate that makes one.
#[expect(clippy::disallowed_methods, reason = "this module is where the sandbox starts programs")]
pub(crate) fn new_command(exe: &Path) -> Command {
    Command::new(exe)
}

/// Starts a command with its own pipes.
pub(crate) fn start(mut command: Command) -> Result<Child, Error> {
    let (stdout, stdout_end) = pipe("standard output")?;
    let (stderr, stderr_end) = pipe("standard error")?;
    let (frames, frames_end) = pipe("report")?;
    let (words, words_end) = pipe("report")?;
    command.stdout(Stdio::from(stdout_end)).stderr(Stdio::from(stderr_end));
    sys::pass_descriptor(&mut command, frames_end.as_fd(), FRAMES_DESCRIPTOR);
    sys::pass_descriptor(&mut command, words_end.as_fd(), WORDS_DESCRIPTOR);
    let path = command.get_program().to_owned();
    let child = command.spawn().map_err(|source| Error::Spawn { path: path.into(), source })?;
    // The command holds our copies of the writing ends: with them open, no pipe would ever end.
    drop(command);
    drop((frames_end, words_end));
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| Error::Watch(io::ErrorKind::InvalidData.into()))?;
    match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(pidfd) => Ok(Child { pid, pidfd, reaped: false, pipes: Some([stdout, stderr, frames, words]) }),
        Err(error) => {
            rustix::process::kill_process(pid, Signal::KILL).ok();
            sys::reap(pid.as_raw_nonzero().get()).ok();
            Err(Error::Watch(error.into()))
        }
    }
}

impl Child {
    /// The reading ends of its standard output, standard error, frames and words. Whoever closes one ends the guest's writing.
    pub(crate) fn take_pipes(&mut self) -> Result<[OwnedFd; 4], Error> {
        self.pipes.take().ok_or_else(|| Error::Watch(io::ErrorKind::NotConnected.into()))
    }

    /// Becomes readable when the child has ended.
    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Kills it and whatever stayed in its session's group.
    pub(crate) fn kill(&self) {
        // Either may be gone already; that is what is wanted.
        rustix::process::kill_process_group(self.pid, Signal::KILL).ok();
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
    }

    /// How many threads it has; none once it is gone.
    pub(crate) fn threads(&self) -> u64 {
        let path = format!("/proc/{}/status", self.pid.as_raw_nonzero());
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Waits for its end and returns what it used.
    pub(crate) fn reap(&mut self) -> Result<Ended, Error> {
        // While the zombie holds the number, the group cannot be anyone else's.
        rustix::process::kill_process_group(self.pid, Signal::KILL).ok();
        let ended = sys::reap(self.pid.as_raw_nonzero().get()).map_err(Error::Watch)?;
        self.reaped = true;
        Ok(ended)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            sys::reap(self.pid.as_raw_nonzero().get()).ok();
        }
    }
}

/// A pipe: our non-blocking reading end, and a writing end whose number is high.
fn pipe(what: &'static str) -> Result<(OwnedFd, OwnedFd), Error> {
    let make = || -> rustix::io::Result<(OwnedFd, OwnedFd)> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        Ok((reader, rustix::io::fcntl_dupfd_cloexec(&writer, LOWEST_OWN_NUMBER)?))
    };
    make().map_err(|error| Error::MakeDescriptor { what, source: error.into() })
}

/// The assignment, rewound, in memory.
fn memory_file(request: &Request) -> Result<Stdio, Error> {
    let text = serde_json::to_vec(request).map_err(Error::EncodeRequest)?;
    let fail = |source: io::Error| Error::MakeDescriptor { what: "request", source };
    let descriptor = rustix::fs::memfd_create("nanoclaw-request", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|error| fail(error.into()))?;
    let mut file = std::fs::File::from(descriptor);
    file.write_all(&text).and_then(|()| file.rewind()).map_err(fail)?;
    Ok(Stdio::from(file))
}
