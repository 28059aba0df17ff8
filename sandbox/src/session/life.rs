//! A session's watcher: one thread that waits for the end, counts processes, and ends what grows too large.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::SessionEnd;
use crate::broker::wait_until_readable;
use crate::clock::now;
use crate::error::SandboxError;
use crate::guest::Guest;
use crate::limits::RunLimits;
use crate::quota::Quota;
use crate::watch::insist;

/// The pause between two counts of a tree that grows, and of one that does not.
const BUSY_PAUSE: Duration = Duration::from_millis(25);
const QUIET_PAUSE: Duration = Duration::from_millis(250);
/// The least pause between two counts of the private directory; after a long count the next comes late.
const DIRECTORY_PAUSE: Duration = Duration::from_millis(100);
/// A count may take one part in so many of the time.
const COUNT_SHARE: u32 = 20;

/// What both the session and its watcher know.
#[derive(Debug, Default)]
pub(super) struct Life {
    end: Mutex<Option<SessionEnd>>,
    has_ended: Condvar,
    is_given_up: AtomicBool,
}

impl Life {
    /// How it has ended, if it has.
    pub(super) fn ended(&self) -> Option<SessionEnd> {
        self.lock().clone()
    }

    /// The same, once it has.
    pub(super) fn wait(&self) -> SessionEnd {
        let mut end = self.lock();
        loop {
            if let Some(end) = &*end {
                return end.clone();
            }
            end = self.has_ended.wait(end).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The same, with an end to the patience.
    pub(super) fn wait_for(&self, patience: Duration) -> Option<SessionEnd> {
        let end = self.lock();
        let waited = self.has_ended.wait_timeout_while(end, patience, |end| end.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Nobody wants it any more.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Option<SessionEnd>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is watched, beside its end.
pub(super) struct Watched {
    /// The supervisor.
    pub(super) guest: Guest,
    /// How many processes and threads there may be, and what the private directory may hold.
    pub(super) limits: RunLimits,
    /// The private directory, if there is one.
    pub(super) own: Option<PathBuf>,
}

/// Tells `life` of the end, however it comes.
struct Herald<'a>(&'a Life, SessionEnd);

impl Drop for Herald<'_> {
    fn drop(&mut self) {
        *self.0.lock() = Some(std::mem::take(&mut self.1));
        self.0.has_ended.notify_all();
    }
}

/// Watches a session to its end.
pub(super) fn watch(watched: Watched, life: &Life) {
    let lost = SessionEnd { reason: Some("its watcher broke down".to_owned()), ..SessionEnd::default() };
    let mut herald = Herald(life, lost);
    let Watched { mut guest, limits, own } = watched;
    let (reason, stuck) = until_end(&guest, &limits, own, life);
    let ended = match stuck {
        Some(error) => Err(error),
        None => guest.ended(),
    };
    herald.1 = match ended {
        Ok(ended) => SessionEnd { exit_code: ended.exit_code, signal: ended.signal, reason },
        Err(error) => SessionEnd { reason: Some(error.to_string()), ..SessionEnd::default() },
    };
    // Before the word goes out: nothing of it runs any more.
    drop(guest);
}

/// Waits for the end, and brings it about where it must be: why, and what kept it from coming.
fn until_end(
    guest: &Guest,
    limits: &RunLimits,
    own: Option<PathBuf>,
    life: &Life,
) -> (Option<String>, Option<SandboxError>) {
    let mut guard =
        Guard { limits, own: own.and_then(|own| Quota::new(&own, true, limits, 1).ok()), tasks: 0 };
    let mut next_directory = now() + DIRECTORY_PAUSE;
    let mut pause = BUSY_PAUSE;
    let mut cut: Option<(String, Instant)> = None;
    loop {
        match wait_until_readable(guest.end(), pause) {
            Ok(true) => return (cut.map(|(reason, _)| reason).or_else(|| given_up(life)), None),
            Ok(false) => {}
            Err(error) => return (None, Some(SandboxError::Watch(error.into()))),
        }
        if let Some((reason, since)) = &cut {
            if let Err(error) = insist(guest, since.elapsed()) {
                return (Some(reason.clone()), Some(error));
            }
            continue;
        }
        let mut reason = given_up(life).or_else(|| guard.count(guest, &mut pause));
        if reason.is_none() && now() >= next_directory {
            let start = now();
            reason = guard.weigh();
            next_directory = now() + DIRECTORY_PAUSE + start.elapsed() * COUNT_SHARE;
        }
        if let Some(reason) = reason {
            guest.kill();
            cut = Some((reason, now()));
            pause = BUSY_PAUSE;
        }
    }
}

/// Why it ends when nobody wants it.
fn given_up(life: &Life) -> Option<String> {
    life.is_given_up.load(Ordering::Relaxed).then(|| "ended by the server".to_owned())
}

/// The bounds that no kernel of every machine keeps.
struct Guard<'a> {
    limits: &'a RunLimits,
    own: Option<Quota>,
    tasks: u64,
}

impl Guard<'_> {
    /// Why it must end for its processes, if it must. A tree that changes is counted again soon.
    fn count(&mut self, guest: &Guest, pause: &mut Duration) -> Option<String> {
        let most = self.limits.processes;
        let tasks = guest.tasks(most);
        *pause = if tasks == self.tasks { (*pause * 2).min(QUIET_PAUSE) } else { BUSY_PAUSE };
        self.tasks = tasks;
        (tasks > most).then(|| format!("it had more than {most} threads and processes (processes)"))
    }

    /// The same for what its private directory holds.
    fn weigh(&self) -> Option<String> {
        self.own.as_ref()?.exceeded_at_end()?;
        let (bytes, entries) = (self.limits.own_directory_bytes, self.limits.own_directory_entries);
        Some(format!("its private directory held more than {bytes} bytes or {entries} entries"))
    }
}
