//! One call over the network: its cancel token, its timeouts, and how far it has come.
//!
//! `ureq` pools connections, so a connection outlives the call that opened it. The parts of a client
//! therefore share a [`CallSlot`], which holds the call that the client serves now. An empty slot permits no
//! network access.

use crate::ports::CancelToken;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest wait for the network before the call is checked again.
pub(super) const SLICE: Duration = Duration::from_millis(150);

/// The timeouts of a call; [`Duration::MAX`] for none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTimeouts {
    /// For a name lookup, and again for TCP and TLS together.
    pub(crate) connect: Duration,
    /// For TCP connections to all addresses of a name together.
    pub(crate) dial: Duration,
    /// Without a byte in the awaited direction.
    pub(crate) idle: Duration,
    /// Without [`CallSlot::note_progress`], whatever bytes arrive.
    pub(crate) stall: Duration,
}

/// Why the waits of a call have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallEnd {
    /// The token was cancelled, its deadline has passed, or there is no call.
    #[error("cancelled")]
    Cancelled,
    /// No connection within the connect timeout.
    #[error("connect timeout")]
    ConnectTimeout,
    /// No byte within the idle timeout.
    #[error("idle timeout")]
    IdleTimeout,
    /// No progress within the stall timeout.
    #[error("stalled")]
    Stalled,
}

impl CallEnd {
    /// The end of the call behind an error of `ureq` or of a body reader, if that is its cause.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let inner = error.get_ref()?;
        match inner.downcast_ref::<ureq::Error>() {
            // A compressed body fails inside its decoder.
            Some(ureq::Error::Io(deeper) | ureq::Error::Decompress(_, deeper)) => Self::of(deeper),
            _ => inner.downcast_ref().copied().or_else(|| Self::of(inner.downcast_ref::<io::Error>()?)),
        }
    }
}

impl From<CallEnd> for io::Error {
    fn from(end: CallEnd) -> Self {
        Self::other(end)
    }
}

#[derive(Debug)]
struct CallContext {
    cancel: CancelToken,
    timeouts: CallTimeouts,
    /// The end of the connect timeout while a connection is made, on the token's clock.
    connect_by_ms: Option<u64>,
    progress_ms: u64,
}

impl CallContext {
    fn now_ms(&self) -> u64 {
        self.cancel.clock().monotonic_ms()
    }

    fn check(&self, begun_ms: u64) -> Result<(), CallEnd> {
        let now_ms = self.now_ms();
        let since = |ms: u64| Duration::from_millis(now_ms.saturating_sub(ms));
        if self.cancel.is_cancelled() {
            Err(CallEnd::Cancelled)
        } else if self.connect_by_ms.is_some_and(|by_ms| now_ms >= by_ms) {
            Err(CallEnd::ConnectTimeout)
        } else if since(begun_ms) >= self.timeouts.idle {
            Err(CallEnd::IdleTimeout)
        } else if since(self.progress_ms) >= self.timeouts.stall {
            Err(CallEnd::Stalled)
        } else {
            Ok(())
        }
    }

    fn time_to_dial(&self) -> Duration {
        let to_connect = self.connect_by_ms.map_or(self.timeouts.connect, |by_ms| {
            Duration::from_millis(by_ms.saturating_sub(self.now_ms()))
        });
        to_connect.min(self.timeouts.dial).min(self.cancel.remaining())
    }
}

/// The place of a client's current call. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallSlot(Arc<Mutex<Option<CallContext>>>);

impl CallSlot {
    /// The client serves this call from now on.
    pub(super) fn begin(&self, cancel: &CancelToken, timeouts: CallTimeouts) {
        let progress_ms = cancel.clock().monotonic_ms();
        *self.lock() =
            Some(CallContext { cancel: cancel.clone(), timeouts, connect_by_ms: None, progress_ms });
    }

    pub(super) fn end(&self) {
        *self.lock() = None;
    }

    /// Restarts the stall timeout.
    pub(crate) fn note_progress(&self) {
        self.change(|call| call.progress_ms = call.now_ms());
    }

    /// Lowers the idle timeout for the rest of the call.
    pub(crate) fn limit_idle(&self, idle: Duration) {
        self.change(|call| call.timeouts.idle = call.timeouts.idle.min(idle));
    }

    /// Whether the call may go on.
    pub(crate) fn check(&self) -> Result<(), CallEnd> {
        self.read(|call| call.check(call.now_ms()))?
    }

    /// Starts the connect timeout, for a name lookup or for TCP and TLS together.
    pub(super) fn connecting(&self) -> io::Result<()> {
        let start = |call: &mut CallContext| {
            let timeout_ms = u64::try_from(call.timeouts.connect.as_millis()).unwrap_or(u64::MAX);
            call.connect_by_ms = Some(call.now_ms().saturating_add(timeout_ms));
        };
        Ok(self.lock().as_mut().map(start).ok_or(CallEnd::Cancelled)?)
    }

    /// Ends the connect timeout.
    pub(super) fn connected(&self) {
        self.change(|call| call.connect_by_ms = None);
    }

    /// Time left for TCP connections.
    pub(super) fn time_to_dial(&self) -> Duration {
        self.read(CallContext::time_to_dial).unwrap_or(Duration::ZERO)
    }

    /// Begins a wait; fails if the call has ended.
    pub(super) fn wait(&self) -> io::Result<Wait<'_>> {
        let wait = Wait { slot: self, begun_ms: self.read(CallContext::now_ms)? };
        wait.check()?;
        Ok(wait)
    }

    #[cfg(test)]
    pub(super) fn shares_call_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn change(&self, change: impl FnOnce(&mut CallContext)) {
        if let Some(call) = self.lock().as_mut() {
            change(call);
        }
    }

    fn read<T>(&self, read: impl FnOnce(&CallContext) -> T) -> Result<T, CallEnd> {
        self.lock().as_ref().map(read).ok_or(CallEnd::Cancelled)
    }

    fn lock(&self) -> MutexGuard<'_, Option<CallContext>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wait for the network; it takes one or more slices.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait<'a> {
    slot: &'a CallSlot,
    begun_ms: u64,
}

impl Wait<'_> {
    /// Whether to wait for another slice.
    pub(super) fn check(self) -> io::Result<()> {
        Ok(self.slot.read(|call| call.check(self.begun_ms))??)
    }

    pub(super) fn elapsed(self) -> io::Result<Duration> {
        let now_ms = self.slot.read(CallContext::now_ms)?;
        Ok(Duration::from_millis(now_ms.saturating_sub(self.begun_ms)))
    }
}
