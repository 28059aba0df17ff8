//! The descriptors of a run on their way into its child.
//!
//! Owns: which number each gets, and that nothing else stays open.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::{FRAMES_DESCRIPTOR, HOST_DESCRIPTOR, WORDS_DESCRIPTOR};
use crate::broker::Extra;
use crate::sys;

/// Clear of every number that a descriptor gets in a child.
const LOWEST_OWN_NUMBER: i32 = 16;
/// The number of the broker's own socket.
const CONTROL_DESCRIPTOR: i32 = 3;

/// The writing ends of a run's pipes, and its program.
#[derive(Debug)]
pub(crate) struct Kit {
    stdout: OwnedFd,
    stderr: OwnedFd,
    frames: OwnedFd,
    words: OwnedFd,
    code: OwnedFd,
    /// What only some runs have; the order says what it is.
    extra: Option<OwnedFd>,
}

impl Kit {
    /// Takes them as they came with an order; none if one is missing.
    pub(crate) fn from_descriptors(mut descriptors: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(Self {
            stdout: descriptors.next()?,
            stderr: descriptors.next()?,
            frames: descriptors.next()?,
            words: descriptors.next()?,
            code: descriptors.next()?,
            extra: descriptors.next(),
        })
    }

    /// Whether all that an order needs is there.
    pub(crate) fn suits(&self, extra: Option<Extra>) -> bool {
        extra.is_none() || self.extra.is_some()
    }

    /// All of them, in their order.
    pub(crate) fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let always = [&self.stdout, &self.stderr, &self.frames, &self.words, &self.code];
        always.into_iter().chain(&self.extra).map(AsFd::as_fd).collect()
    }

    /// Puts each under its number in this process, `/dev/null` or the run's own input in front of them, and returns the
    /// program. A sixth descriptor that the order does not speak of is left to be closed.
    pub(crate) fn put_in_place(self, extra: Option<Extra>) -> io::Result<OwnedFd> {
        let [stdout, stderr, frames, words, code] =
            [&self.stdout, &self.stderr, &self.frames, &self.words, &self.code].map(AsFd::as_fd);
        let high =
            |descriptor: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, LOWEST_OWN_NUMBER);
        let (stdout, stderr, frames, words, code) =
            (high(stdout)?, high(stderr)?, high(frames)?, high(words)?, high(code)?);
        let (mut stdin, mut host) = (None, None);
        match (extra, &self.extra) {
            (None, _) => {}
            (Some(_), None) => return Err(io::ErrorKind::NotFound.into()),
            (Some(Extra::Stdin), Some(own)) => stdin = Some(high(own.as_fd())?),
            (Some(Extra::Host), Some(own)) => host = Some(high(own.as_fd())?),
        }
        let null = std::fs::File::open("/dev/null")?;
        rustix::stdio::dup2_stdin(stdin.as_ref().map_or(null.as_fd(), AsFd::as_fd))?;
        rustix::stdio::dup2_stdout(&stdout)?;
        rustix::stdio::dup2_stderr(&stderr)?;
        // Whatever had these numbers is gone; what held it must not close ours when it is dropped.
        std::mem::forget((self, null));
        sys::copy_descriptor(frames.as_fd(), FRAMES_DESCRIPTOR)?;
        sys::copy_descriptor(words.as_fd(), WORDS_DESCRIPTOR)?;
        if let Some(host) = host {
            sys::copy_descriptor(host.as_fd(), HOST_DESCRIPTOR)?;
        }
        Ok(code)
    }
}

/// Leaves a spare child with nothing of the broker's but its own socket: what it held open would never seem closed.
pub(super) fn keep_alone(own: OwnedFd) -> io::Result<OwnedFd> {
    sys::copy_descriptor(own.as_fd(), CONTROL_DESCRIPTOR)?;
    std::mem::forget(own);
    sys::close_from(CONTROL_DESCRIPTOR.unsigned_abs() + 1)?;
    sys::inherited(CONTROL_DESCRIPTOR)
}

/// Leaves a fresh broker with `/dev/null` three times and its socket, which came as standard input.
pub(crate) fn settle_descriptors() -> io::Result<OwnedFd> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), LOWEST_OWN_NUMBER)?;
    sys::copy_descriptor(control.as_fd(), CONTROL_DESCRIPTOR)?;
    std::mem::forget(control);
    sys::close_from(CONTROL_DESCRIPTOR.unsigned_abs() + 1)?;
    let control = sys::inherited(CONTROL_DESCRIPTOR)?;
    rustix::io::fcntl_setfd(&control, rustix::io::FdFlags::CLOEXEC)?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(control)
}
