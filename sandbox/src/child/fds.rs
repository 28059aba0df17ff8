//! The descriptors of a run on their way into its child: each gets a fixed number, and everything else is
//! closed.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::broker::ExtraFd;
use crate::child_report::ReportWriter;
use crate::sys;

/// The report pipe of the set-up, closed before guest code runs.
pub(crate) const FRAMES_FD: i32 = 3;
/// The pipe for the guest's result.
pub(crate) const RESULT_FD: i32 = 4;
/// The socket for host calls, in runs that have one.
pub(super) const HOST_FD: i32 = 5;
/// Descriptors from here on are closed in a child; one later in runs with host calls.
const FIRST_CLOSED_FD: u32 = 5;
/// Higher than every fixed number of a child.
const LOWEST_TEMPORARY_FD: i32 = 16;
/// The socket to the server, in the broker; the socket to the broker, in a spare child.
const CONTROL_FD: i32 = 3;

/// The writing ends of a run's pipes, and its program.
#[derive(Debug)]
pub(crate) struct RunFds {
    stdout: OwnedFd,
    stderr: OwnedFd,
    frames: OwnedFd,
    result: OwnedFd,
    code: OwnedFd,
    /// Its purpose is in the request.
    extra: Option<OwnedFd>,
}

impl RunFds {
    /// Takes the descriptors of a request, in order; `None` if one is missing.
    pub(crate) fn from_descriptors(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(Self {
            stdout: descriptors.next()?,
            stderr: descriptors.next()?,
            frames: descriptors.next()?,
            result: descriptors.next()?,
            code: descriptors.next()?,
            extra: descriptors.next(),
        })
    }

    /// Whether the extra descriptor is there if the request needs one.
    pub(crate) fn has(&self, extra: Option<ExtraFd>) -> bool {
        extra.is_none() || self.extra.is_some()
    }

    /// All of them, in order.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let always = [&self.stdout, &self.stderr, &self.frames, &self.result, &self.code];
        always.into_iter().chain(&self.extra).map(AsFd::as_fd).collect()
    }

    /// Gives each descriptor its number in this process and returns the program. Standard input is the run's
    /// own or `/dev/null`. A sixth descriptor that the request does not mention is closed with the others
    /// later.
    fn install(self, extra: Option<ExtraFd>) -> io::Result<OwnedFd> {
        let [stdout, stderr, frames, result, code] =
            [&self.stdout, &self.stderr, &self.frames, &self.result, &self.code].map(AsFd::as_fd);
        let high =
            |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, LOWEST_TEMPORARY_FD);
        let (stdout, stderr, frames, result, code) =
            (high(stdout)?, high(stderr)?, high(frames)?, high(result)?, high(code)?);
        let (mut stdin, mut host) = (None, None);
        match (extra, &self.extra) {
            (None, _) => {}
            (Some(_), None) => return Err(io::ErrorKind::NotFound.into()),
            (Some(ExtraFd::Stdin), Some(fd)) => stdin = Some(high(fd.as_fd())?),
            (Some(ExtraFd::Host), Some(fd)) => host = Some(high(fd.as_fd())?),
        }
        let null = File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(stdin.as_ref().map_or(null.as_fd(), AsFd::as_fd))?;
        rustix::stdio::dup2_stdout(&stdout)?;
        rustix::stdio::dup2_stderr(&stderr)?;
        // These may have had the fixed numbers: dropping them would close the new descriptors.
        std::mem::forget((self, null));
        sys::copy_descriptor(frames.as_fd(), FRAMES_FD)?;
        sys::copy_descriptor(result.as_fd(), RESULT_FD)?;
        if let Some(host) = host {
            sys::copy_descriptor(host.as_fd(), HOST_FD)?;
        }
        Ok(code)
    }
}

/// Installs the descriptors of a run, closes all others, and reads the program.
pub(crate) fn take_fds(fds: RunFds, extra: Option<ExtraFd>) -> io::Result<(ReportWriter, String)> {
    let code = fds.install(extra)?;
    let report = ReportWriter::new(sys::inherited(FRAMES_FD)?.into(), sys::inherited(RESULT_FD)?.into());
    let mut text = String::new();
    File::from(code).read_to_string(&mut text)?;
    let has_host = extra == Some(ExtraFd::Host);
    sys::close_from(FIRST_CLOSED_FD + u32::from(has_host))?;
    Ok((report, text))
}

/// Closes every descriptor of a spare child except its own socket. A copy of another socket would keep that
/// one open.
pub(super) fn keep_only(fd: OwnedFd) -> io::Result<OwnedFd> {
    sys::copy_descriptor(fd.as_fd(), CONTROL_FD)?;
    std::mem::forget(fd);
    sys::close_from(CONTROL_FD.unsigned_abs() + 1)?;
    sys::inherited(CONTROL_FD)
}

/// Closes every descriptor of a new broker except its socket, which was its standard input. Standard input,
/// output and error become `/dev/null`.
pub(crate) fn keep_only_control_socket() -> io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), LOWEST_TEMPORARY_FD)?;
    let control = keep_only(control)?;
    rustix::io::fcntl_setfd(&control, rustix::io::FdFlags::CLOEXEC)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(control)
}
