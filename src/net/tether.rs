//! What ends network waits. Owns the seam between sockets and whoever may stop them, and finding that stop behind the
//! errors of others; refuses to know leashes.
//!
//! `ureq` hands a transport no context of the call it serves, and pools transports between calls. But a call runs on
//! one thread from start to end, so its cancel waits there, in a thread local: a tether is the way to it, and answers
//! for the call of the thread that asks.

use std::error::Error;
use std::fmt::Debug;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// The longest wait for the network without asking the tether.
pub(super) const SLICE: Duration = Duration::from_millis(150);

/// Says how long this thread may wait. A thread without a call gets no network: better a refused wait than one that
/// nobody can end.
pub(crate) trait Tether: Debug + Send + Sync {
    /// On the clock of the call.
    fn now_ms(&self) -> io::Result<u64>;
    /// Whether to wait for another slice, in a wait that began at `begun_ms`.
    fn check(&self, begun_ms: u64) -> io::Result<()>;
    /// Whether the error is the end of the call, so that no other address is tried.
    fn is_pulled(&self, error: &io::Error) -> bool;
    /// What is left for connecting, to all addresses that have not been tried.
    fn time_to_dial(&self) -> Duration;
    /// An address has not answered within its share of that time.
    fn too_slow(&self) -> io::Error;
    /// What follows until [`Tether::connected`] is a name lookup, or TCP and TLS together.
    fn connecting(&self) -> io::Result<()> {
        Ok(())
    }
    /// Ends what [`Tether::connecting`] began.
    fn connected(&self) {}
}

/// One wait for the network, however many slices it takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    tether: &'static dyn Tether,
    begun_ms: u64,
}

impl Wait {
    /// Begins a wait; fails at once when the tether says stop already.
    pub(super) fn begin(tether: &'static dyn Tether) -> io::Result<Self> {
        let wait = Self { tether, begun_ms: tether.now_ms()? };
        wait.check()?;
        Ok(wait)
    }

    /// Whether to wait for another slice.
    pub(super) fn check(self) -> io::Result<()> {
        self.tether.check(self.begun_ms)
    }

    /// How long it has taken so far.
    pub(super) fn so_far(self) -> io::Result<Duration> {
        Ok(Duration::from_millis(self.tether.now_ms()?.saturating_sub(self.begun_ms)))
    }
}

/// Unties this thread from its call when dropped. Stays on its thread.
#[derive(Debug)]
#[must_use = "the thread is untied when this is dropped"]
pub(crate) struct Held {
    untie: fn(),
    stays: PhantomData<*const ()>,
}

impl Held {
    /// Does `untie` at its end.
    pub(crate) fn new(untie: fn()) -> Self {
        Self { untie, stays: PhantomData }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.untie)();
    }
}

/// A tether's reason to stop behind an error of `ureq` or of a body reader, if that is what it is.
pub(crate) fn cut_of<C: Error + Copy + 'static>(error: &io::Error) -> Option<C> {
    let inner = error.get_ref()?;
    match inner.downcast_ref::<ureq::Error>() {
        // A packed body breaks off inside its decoder.
        Some(ureq::Error::Io(deeper) | ureq::Error::Decompress(_, deeper)) => cut_of(deeper),
        _ => inner.downcast_ref().copied().or_else(|| cut_of(inner.downcast_ref::<io::Error>()?)),
    }
}
