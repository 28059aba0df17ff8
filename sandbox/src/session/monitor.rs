//! The monitor thread of a session: waits for the end, counts processes, and ends what exceeds its limits.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::spec::SessionEnd;
use crate::clock::now;
use crate::error::SandboxError;
use crate::limits::RunLimits;
use crate::options::FreeSpace;
use crate::process::ChildExit;
use crate::process::wait_until_readable;
use crate::run::{DirectoryQuota, RunChild, TreeLimit, escalate_kill};

/// The pause between two counts of a changing tree, and of an unchanged one.
const BUSY_PAUSE: Duration = Duration::from_millis(25);
const QUIET_PAUSE: Duration = Duration::from_millis(250);
/// The minimal pause between two counts of the private directory.
const DIRECTORY_PAUSE: Duration = Duration::from_millis(100);
/// Counting the directory may take at most one part in this number of the time.
const COUNT_SHARE: u32 = 20;

/// The state that the session's handle and its monitor share.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    end: Mutex<Option<SessionEnd>>,
    has_ended: Condvar,
    is_end_requested: AtomicBool,
}

impl SessionState {
    /// How the session ended; `None` while it runs.
    pub(super) fn end(&self) -> Option<SessionEnd> {
        self.lock().clone()
    }

    pub(super) fn wait(&self) -> SessionEnd {
        let mut end = self.lock();
        loop {
            if let Some(end) = &*end {
                return end.clone();
            }
            end = self.has_ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn wait_for(&self, timeout: Duration) -> Option<SessionEnd> {
        let end = self.lock();
        let waited = self.has_ended.wait_timeout_while(end, timeout, |end| end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(super) fn request_end(&self) {
        self.is_end_requested.store(true, Ordering::Relaxed);
    }

    /// The reason for the end, if the server has requested it.
    fn requested_end(&self) -> Option<String> {
        self.is_end_requested.load(Ordering::Relaxed).then(|| "ended by the server".to_owned())
    }

    fn lock(&self) -> MutexGuard<'_, Option<SessionEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session as its monitor sees it.
pub(super) struct WatchedSession {
    /// The supervisor.
    pub(super) guest: RunChild,
    pub(super) limits: RunLimits,
    /// The private directory, if there is one.
    pub(super) own_dir: Option<PathBuf>,
}

/// Publishes the end when dropped, even after a panic.
struct EndNotifier<'a> {
    state: &'a SessionState,
    end: SessionEnd,
}

impl Drop for EndNotifier<'_> {
    fn drop(&mut self) {
        *self.state.lock() = Some(std::mem::take(&mut self.end));
        self.state.has_ended.notify_all();
    }
}

/// Monitors a session until its end. Returns the supervisor if processes of the session are left.
pub(super) fn monitor(session: WatchedSession, state: &SessionState) -> Option<RunChild> {
    let panicked = SessionEnd { reason: Some("its monitor panicked".to_owned()), ..SessionEnd::default() };
    let mut notifier = EndNotifier { state, end: panicked };
    let WatchedSession { mut guest, limits, own_dir } = session;
    let (reason, exit) = wait_for_end(&mut guest, &limits, own_dir, state);
    let leaves_processes = exit.as_ref().is_ok_and(|exit| exit.leaves_processes);
    notifier.end = match exit {
        Ok(exit) => SessionEnd { exit_code: exit.exit_code, signal: exit.signal, reason },
        Err(error) => SessionEnd { reason: Some(error.to_string()), ..SessionEnd::default() },
    };
    // Otherwise the session's processes end here, before the notification.
    leaves_processes.then_some(guest)
}

/// Waits for the end, and kills the session if needed. Returns the reason of the kill, and the exit.
fn wait_for_end(
    guest: &mut RunChild,
    limits: &RunLimits,
    own_dir: Option<PathBuf>,
    state: &SessionState,
) -> (Option<String>, Result<ChildExit, SandboxError>) {
    let quota = own_dir.and_then(|path| {
        DirectoryQuota::new(&path, limits, Some(TreeLimit::private(limits)), FreeSpace::default()).ok()
    });
    let mut monitor = SessionMonitor { limits, quota, tasks: 0 };
    let session_start = now();
    let mut next_directory_count = session_start + DIRECTORY_PAUSE;
    let mut pause = BUSY_PAUSE;
    let mut killed: Option<(String, Instant)> = None;
    loop {
        match wait_until_readable(guest.exit_fd(), pause) {
            Ok(true) => {
                if let Some(exit) = guest.read_exit().transpose() {
                    return (killed.map(|(reason, _)| reason).or_else(|| state.requested_end()), exit);
                }
            }
            Ok(false) => {}
            Err(error) => return (None, Err(SandboxError::Watch(error.into()))),
        }
        if let Some((reason, since)) = &killed {
            match escalate_kill(guest, since.elapsed()) {
                Ok(false) => continue,
                Ok(true) => return (Some(reason.clone()), Ok(ChildExit::not_yet())),
                Err(error) => return (Some(reason.clone()), Err(error)),
            }
        }
        let mut reason = state.requested_end().or_else(|| monitor.check_tasks(guest, &mut pause));
        if reason.is_none() && now() >= next_directory_count {
            let start = now();
            reason = monitor.check_directory(guest, session_start.elapsed());
            next_directory_count = now() + DIRECTORY_PAUSE + start.elapsed() * COUNT_SHARE;
        }
        if let Some(reason) = reason {
            guest.kill();
            killed = Some((reason, now()));
            pause = BUSY_PAUSE;
        }
    }
}

/// The limits that the kernel does not enforce on every machine.
struct SessionMonitor<'a> {
    limits: &'a RunLimits,
    quota: Option<DirectoryQuota>,
    tasks: u64,
}

impl SessionMonitor<'_> {
    /// The reason to end a session with too many processes. A changed tree is counted again soon.
    fn check_tasks(&mut self, guest: &RunChild, pause: &mut Duration) -> Option<String> {
        let max = self.limits.processes;
        let tasks = guest.count_tasks(max);
        *pause = if tasks == self.tasks { (*pause * 2).min(QUIET_PAUSE) } else { BUSY_PAUSE };
        self.tasks = tasks;
        (tasks > max).then(|| format!("it had more than {max} threads and processes (processes)"))
    }

    /// The reason to end a session with a too large private directory.
    fn check_directory(&mut self, guest: &RunChild, elapsed: Duration) -> Option<String> {
        let max = self.limits.processes;
        self.quota.as_mut()?.exceeded_now(guest.pid(), max, elapsed)?;
        let (bytes, entries) = (self.limits.own_directory_bytes, self.limits.own_directory_entries);
        Some(format!("its private directory held more than {bytes} bytes or {entries} entries"))
    }
}
