//! Ties a thread's network waits to the leash of the call it makes. Owns the reasons to break off; refuses to know
//! sockets.
//!
//! `ureq` hands a transport no context of the call it serves, and pools transports between calls. But a call runs on
//! one thread from start to end, so the leash waits there: [`hold`] ties it, the transport asks [`check`], and the
//! guard unties it, on every way out.

use crate::ports::Leash;
use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// The longest wait for the network without asking the leash.
pub(super) const SLICE: Duration = Duration::from_millis(150);

/// How long the phases of a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a name lookup, and again for a connection with its TLS handshake.
    pub(crate) connect: Duration,
    /// Without a byte from the provider, or without room for one to it. [`STALL_IDLES`] times as long may pass without
    /// anything of an answer, whatever else comes (comments, pings, empty pieces).
    pub(crate) idle: Duration,
}

/// So many idle timeouts make a stall. Providers whose callers wait in line send comments for minutes.
const STALL_IDLES: u32 = 5;

impl Patience {
    /// Without anything of an answer.
    pub(crate) fn stall(self) -> Duration {
        self.idle.saturating_mul(STALL_IDLES)
    }
}

/// Why a network wait was broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Cut {
    /// The leash was pulled.
    #[error("stopped")]
    Pulled,
    /// No connection within the connect timeout.
    #[error("no connection in time")]
    Connect,
    /// Nothing came or went within the idle timeout.
    #[error("silence")]
    Idle,
    /// Whatever came, nothing of it was an answer.
    #[error("nothing of an answer")]
    Stalled,
}

impl From<Cut> for io::Error {
    fn from(cut: Cut) -> Self {
        Self::other(cut)
    }
}

impl From<Cut> for ureq::Error {
    fn from(cut: Cut) -> Self {
        Self::Io(cut.into())
    }
}

struct Tether {
    leash: Leash,
    patience: Patience,
    /// Set while a connection is being made: its end on the leash's clock.
    connect_by_ms: Option<u64>,
    /// When the answer last grew.
    grown_ms: u64,
}

thread_local! {
    static TETHER: RefCell<Option<Tether>> = const { RefCell::new(None) };
}

/// Unties the leash when dropped. Stays on its thread.
#[derive(Debug)]
#[must_use = "the leash is untied when this is dropped"]
pub(crate) struct Held(PhantomData<*const ()>);

impl Drop for Held {
    fn drop(&mut self) {
        TETHER.with_borrow_mut(|tether| *tether = None);
    }
}

/// Ties this thread's network waits to the leash.
pub(crate) fn hold(leash: &Leash, patience: Patience) -> Held {
    let grown_ms = leash.clock.monotonic_ms();
    TETHER.with_borrow_mut(|tether| {
        *tether = Some(Tether { leash: leash.clone(), patience, connect_by_ms: None, grown_ms });
    });
    Held(PhantomData)
}

/// One wait for the network, however many slices it takes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    started_ms: u64,
}

/// Begins a wait; fails at once when the leash is pulled already.
pub(crate) fn begin() -> Result<Wait, Cut> {
    let wait = ask(|tether| Wait { started_ms: tether.leash.clock.monotonic_ms() })?;
    wait.check()?;
    Ok(wait)
}

/// Bounds everything until [`connected`] by the connect timeout: a name lookup, or TCP and TLS together.
pub(crate) fn connecting() -> Result<(), Cut> {
    TETHER.with_borrow_mut(|slot| {
        let tether = slot.as_mut().ok_or(Cut::Pulled)?;
        let timeout_ms = u64::try_from(tether.patience.connect.as_millis()).unwrap_or(u64::MAX);
        tether.connect_by_ms = Some(tether.leash.clock.monotonic_ms().saturating_add(timeout_ms));
        Ok(())
    })
}

/// Ends what [`connecting`] began.
pub(crate) fn connected() {
    TETHER.with_borrow_mut(|slot| {
        if let Some(tether) = slot.as_mut() {
            tether.connect_by_ms = None;
        }
    });
}

/// The answer has grown. Without a tether, nothing is waited for.
pub(crate) fn grow() {
    TETHER.with_borrow_mut(|slot| {
        if let Some(tether) = slot.as_mut() {
            tether.grown_ms = tether.leash.clock.monotonic_ms();
        }
    });
}

/// From here on, so much silence ends the call: what is still to come is welcome but not needed.
pub(crate) fn hurry(idle: Duration) {
    TETHER.with_borrow_mut(|slot| {
        if let Some(tether) = slot.as_mut() {
            tether.patience.idle = tether.patience.idle.min(idle);
        }
    });
}

/// What is left of the connect timeout.
pub(crate) fn connect_time_left() -> Duration {
    let left = ask(|tether| {
        let now = tether.leash.clock.monotonic_ms();
        tether
            .connect_by_ms
            .map_or(tether.patience.connect, |by| Duration::from_millis(by.saturating_sub(now)))
    });
    left.unwrap_or(Duration::ZERO)
}

impl Wait {
    /// Whether to wait for another slice.
    pub(crate) fn check(self) -> Result<(), Cut> {
        ask(|tether| {
            let now = tether.leash.clock.monotonic_ms();
            if tether.leash.is_pulled() {
                Err(Cut::Pulled)
            } else if tether.connect_by_ms.is_some_and(|by| now >= by) {
                Err(Cut::Connect)
            } else if self.elapsed(now) >= tether.patience.idle {
                Err(Cut::Idle)
            } else if millis(now.saturating_sub(tether.grown_ms)) >= tether.patience.stall() {
                Err(Cut::Stalled)
            } else {
                Ok(())
            }
        })?
    }

    /// How long it has taken so far.
    pub(crate) fn so_far(self) -> Duration {
        ask(|tether| self.elapsed(tether.leash.clock.monotonic_ms())).unwrap_or(Duration::MAX)
    }

    fn elapsed(self, now_ms: u64) -> Duration {
        millis(now_ms.saturating_sub(self.started_ms))
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A thread without a tether gets no network: better a refused wait than one that nobody can end.
fn ask<T>(question: impl FnOnce(&Tether) -> T) -> Result<T, Cut> {
    TETHER.with_borrow(|tether| tether.as_ref().map(question).ok_or(Cut::Pulled))
}

/// The cut behind an error of `ureq` or of a body reader, if that is what it is.
pub(crate) fn cut_of(error: &io::Error) -> Option<Cut> {
    let inner = error.get_ref()?;
    match inner.downcast_ref::<ureq::Error>() {
        // A packed body breaks off inside its decoder.
        Some(ureq::Error::Io(deeper) | ureq::Error::Decompress(_, deeper)) => cut_of(deeper),
        _ => inner.downcast_ref::<Cut>().copied(),
    }
}

/// Whether the leash is what ended it.
pub(crate) fn is_pulled(error: &io::Error) -> bool {
    cut_of(error) == Some(Cut::Pulled)
}
