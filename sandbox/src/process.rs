//! Starting programs, and waiting until a descriptor is readable.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// A command. Every program that this crate starts goes through here.
#[expect(clippy::disallowed_methods, reason = "this module is where the sandbox starts programs")]
pub(crate) fn new_command(exe: &Path) -> Command {
    Command::new(exe)
}

/// Waits until there is something to read or the other end is closed; false after `timeout` or a signal.
pub(crate) fn wait_until_readable(descriptor: impl AsFd, timeout: Duration) -> rustix::io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(|_| Errno::INVAL)?;
    match rustix::event::poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}
