//! Watches a child to its end: the broker's word, pipes, clock and cancellation together.
//!
//! Owns: the caps on what is kept, the kill, the wall clock. The end of a pipe is never taken for the end of the
//! child: a guest may close its descriptors and spin on.

use std::time::Duration;

use crate::clock::now;
use crate::error::SandboxError;
use crate::guest::Guest;
use crate::host::{Breach, Calls};
use crate::pipes::Pipes;
use crate::quota::{Excess, Quota};
use crate::stream::{Keep, Stream};
use crate::sys::Ended;

/// How often the caller is asked whether it has cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);
/// The least time between two counts of a guest's threads and processes.
const COUNT_PAUSE: Duration = Duration::from_millis(25);
/// How long a supervisor may take to end its tree.
const KILL_AFTER: Duration = Duration::from_secs(2);
/// How long the kernel and the broker together may take to end a killed child: large memory takes its time.
const STUCK_AFTER: Duration = Duration::from_secs(10);

/// What a run may take and leave.
pub(crate) struct Bounds<'a> {
    /// Wall clock from now.
    pub timeout: Duration,
    /// Bytes of standard output that are kept.
    pub stdout_bytes: usize,
    /// Bytes of standard error that are kept.
    pub stderr_bytes: usize,
    /// Threads and processes that a guest may have (0: the system call filter lets it make none). `RLIMIT_NPROC` counts
    /// them, too, but never for the real user root, and with the server's own for any other user of the server.
    pub tasks: u64,
    /// Which part of a longer output is kept; only a kept end lets the guest write on.
    pub keep: Keep,
    /// Whether the caller wants no more.
    pub cancel: &'a dyn Fn() -> bool,
}

/// Why the parent ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Its time was up.
    Timeout,
    /// The caller cancelled.
    Cancelled,
    /// It had too many threads or processes.
    Tasks,
    /// Its private directory grew too large.
    OwnDirectory(Excess),
    /// It wrote too much.
    Stdout,
    /// It wrote too much.
    Stderr,
    /// It broke the rules of host calls.
    Host(Breach),
}

/// A whole run, as its parent saw it.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Why we ended it, if we did.
    pub cut: Option<Cut>,
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: Stream,
    /// Its standard error.
    pub stderr: Stream,
    /// The first half of its report, our own code's.
    pub frames: Stream,
    /// The second half, the guest's.
    pub words: Stream,
    /// Wall clock.
    pub duration: Duration,
}

/// Watches until the child has ended and is reaped; its private directory and its host calls, too, if it has any.
pub(crate) fn watch(
    mut guest: Guest,
    bounds: &Bounds<'_>,
    quota: Option<Quota>,
    mut calls: Option<Calls>,
) -> Result<Seen, SandboxError> {
    let start = now();
    let mut pipes = Pipes::new(guest.take_pipes()?, bounds.stdout_bytes, bounds.stderr_bytes, bounds.keep);
    let mut guard = Guard { bounds, quota, next_count: Duration::ZERO };
    let mut cut: Option<(Cut, Duration)> = None;
    let duration = loop {
        let elapsed = start.elapsed();
        if let Some((_, since)) = cut {
            insist(&guest, elapsed.saturating_sub(since))?;
        } else if let Some(reason) = guard.look(&guest, &pipes, elapsed) {
            guest.kill();
            cut = Some((reason, elapsed));
        }
        let left = if cut.is_none() { bounds.timeout.saturating_sub(elapsed) } else { CANCEL_POLL };
        let pause = if bounds.tasks > 0 { COUNT_PAUSE } else { CANCEL_POLL };
        let woken = pipes.wait(&guest, calls.as_ref(), left.min(pause));
        let woken = woken.map_err(|error| SandboxError::Watch(error.into()))?;
        if woken.has_ended {
            break start.elapsed();
        }
        let breach = calls.as_mut().filter(|_| woken.has_call).and_then(|calls| calls.step().err());
        if let (Some(breach), None) = (breach, cut) {
            guest.kill();
            cut = Some((Cut::Host(breach), start.elapsed()));
        }
        if cut.is_some() {
            // Nobody waits for an answer any more.
            calls = None;
        }
    };
    let ended = guest.ended()?;
    let [stdout, stderr, frames, words] = pipes.drain();
    let cut = cut.map(|(reason, _)| reason);
    let cut = cut.or_else(|| overflow((stdout.is_full(), stderr.is_full()))).or_else(|| guard.look_back());
    Ok(Seen { cut, ended, stdout, stderr, frames, words, duration })
}

/// What ends a run before it ends itself.
struct Guard<'a> {
    bounds: &'a Bounds<'a>,
    quota: Option<Quota>,
    next_count: Duration,
}

impl Guard<'_> {
    /// Which bound is passed, if one is.
    fn look(&mut self, guest: &Guest, pipes: &Pipes, elapsed: Duration) -> Option<Cut> {
        if elapsed >= self.bounds.timeout {
            return Some(Cut::Timeout);
        }
        if (self.bounds.cancel)() {
            return Some(Cut::Cancelled);
        }
        if let Some(cut) = overflow(pipes.are_full()) {
            return Some(cut);
        }
        let most = self.bounds.tasks;
        if most > 0 && elapsed >= self.next_count {
            self.next_count = elapsed + COUNT_PAUSE;
            if guest.tasks(most) > most {
                return Some(Cut::Tasks);
            }
        }
        let excess = self.quota.as_mut().and_then(|quota| quota.exceeded(elapsed));
        excess.map(Cut::OwnDirectory)
    }

    /// Which bound turns out to have been passed, once the child is gone.
    fn look_back(&self) -> Option<Cut> {
        let excess = self.quota.as_ref().and_then(Quota::exceeded_at_end);
        excess.map(Cut::OwnDirectory)
    }
}

/// Which output is fuller than it may be.
fn overflow(are_full: (bool, bool)) -> Option<Cut> {
    match are_full {
        (true, _) => Some(Cut::Stdout),
        (false, true) => Some(Cut::Stderr),
        (false, false) => None,
    }
}

/// What follows a kill: a supervisor that does not end is killed itself, a broker that tells of no end is stuck.
pub(crate) fn insist(guest: &Guest, since_cut: Duration) -> Result<(), SandboxError> {
    if since_cut > STUCK_AFTER {
        return Err(SandboxError::BrokerStuck);
    }
    if since_cut > KILL_AFTER {
        guest.kill_now();
    }
    Ok(())
}
