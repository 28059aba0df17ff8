//! Starting programs, how they end, and waiting until a descriptor is readable.

use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Killed children that had not exited in time.
static UNREAPED: Mutex<Vec<Child>> = Mutex::new(Vec::new());
/// How long a killed child may take to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The exit of a child and the resources that it used.
#[derive(Debug)]
pub(crate) struct ChildExit {
    /// `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// User and system time.
    pub cpu: Duration,
    /// Peak resident memory.
    pub max_rss_kb: u64,
    /// Processes of its cgroup that the kernel killed for lack of memory; 0 without a cgroup.
    pub oom_kills: u64,
    /// Processes that it started are killed, but have not exited yet.
    pub leaves_processes: bool,
}

impl ChildExit {
    /// Of a killed child that has not exited yet.
    pub(crate) fn not_yet() -> Self {
        Self {
            exit_code: None,
            signal: Some(libc::SIGKILL),
            cpu: Duration::ZERO,
            max_rss_kb: 0,
            oom_kills: 0,
            leaves_processes: true,
        }
    }
}

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

/// Waits until a child has exited, at most `timeout`. Does not reap it. False if it still runs.
pub(crate) fn wait_for_exit(child: &Child, timeout: Duration) -> bool {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pidfd = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    pidfd.is_some_and(|pidfd| wait_until_readable(pidfd, timeout) == Ok(true))
}

/// Kills and reaps a child. `None` if it does not exit now, because it waits for a disk: a later call reaps
/// it.
pub(crate) fn end_child(mut child: Child) -> Option<ExitStatus> {
    // It may have exited already.
    child.kill().ok();
    wait_for_exit(&child, EXIT_TIMEOUT);
    let mut unreaped = UNREAPED.lock().unwrap_or_else(PoisonError::into_inner);
    unreaped.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    let status = child.try_wait().ok().flatten();
    if status.is_none() {
        unreaped.push(child);
    }
    status
}
