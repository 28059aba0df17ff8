//! Ties a thread's network waits to the cancel of the call it makes. Owns the reasons to break off; refuses to know
//! sockets.

use crate::net::{Held, Tether, cut_of};
use crate::ports::CancelToken;
use std::cell::RefCell;
use std::io;
use std::time::Duration;

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
    /// The cancel was pulled.
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

/// A call and how far it has come.
struct Tied {
    cancel: CancelToken,
    patience: Patience,
    /// Set while a connection is being made: its end on the cancel's clock.
    connect_by_ms: Option<u64>,
    /// When the answer last grew.
    grown_ms: u64,
}

impl Tied {
    fn now_ms(&self) -> u64 {
        self.cancel.clock().monotonic_ms()
    }

    fn check(&self, begun_ms: u64) -> Result<(), Cut> {
        let now = self.now_ms();
        if self.cancel.is_cancelled() {
            Err(Cut::Pulled)
        } else if self.connect_by_ms.is_some_and(|by| now >= by) {
            Err(Cut::Connect)
        } else if millis(now.saturating_sub(begun_ms)) >= self.patience.idle {
            Err(Cut::Idle)
        } else if millis(now.saturating_sub(self.grown_ms)) >= self.patience.stall() {
            Err(Cut::Stalled)
        } else {
            Ok(())
        }
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

thread_local! {
    static TIED: RefCell<Option<Tied>> = const { RefCell::new(None) };
}

/// Ties this thread's network waits to the cancel.
pub(crate) fn hold(cancel: &CancelToken, patience: Patience) -> Held {
    let grown_ms = cancel.clock().monotonic_ms();
    TIED.set(Some(Tied { cancel: cancel.clone(), patience, connect_by_ms: None, grown_ms }));
    Held::new(|| TIED.set(None))
}

/// The answer has grown.
pub(crate) fn grow() {
    change(|tied| tied.grown_ms = tied.now_ms());
}

/// From here on, so much silence ends the call: what is still to come is welcome but not needed.
pub(crate) fn hurry(idle: Duration) {
    change(|tied| tied.patience.idle = tied.patience.idle.min(idle));
}

/// Without a call, nothing is waited for.
fn change(act: impl FnOnce(&mut Tied)) {
    TIED.with_borrow_mut(|tied| {
        if let Some(tied) = tied {
            act(tied);
        }
    });
}

fn ask<T>(question: impl FnOnce(&mut Tied) -> T) -> Result<T, Cut> {
    TIED.with_borrow_mut(|tied| tied.as_mut().map(question).ok_or(Cut::Pulled))
}

/// Whether the cancel is what ended it.
pub(crate) fn is_pulled(error: &io::Error) -> bool {
    cut_of(error) == Some(Cut::Pulled)
}

/// The call that this thread makes.
#[derive(Debug)]
pub(super) struct CallTether;

impl Tether for CallTether {
    fn now_ms(&self) -> io::Result<u64> {
        Ok(ask(|tied| tied.now_ms())?)
    }

    fn check(&self, begun_ms: u64) -> io::Result<()> {
        Ok(ask(|tied| tied.check(begun_ms))??)
    }

    fn is_pulled(&self, error: &io::Error) -> bool {
        is_pulled(error)
    }

    fn time_to_dial(&self) -> Duration {
        let left = ask(|tied| {
            let until = |by: u64| millis(by.saturating_sub(tied.now_ms()));
            tied.connect_by_ms.map_or(tied.patience.connect, until)
        });
        left.unwrap_or(Duration::ZERO)
    }

    fn too_slow(&self) -> io::Error {
        Cut::Connect.into()
    }

    fn connecting(&self) -> io::Result<()> {
        Ok(ask(|tied| {
            let timeout_ms = u64::try_from(tied.patience.connect.as_millis()).unwrap_or(u64::MAX);
            tied.connect_by_ms = Some(tied.now_ms().saturating_add(timeout_ms));
        })?)
    }

    fn connected(&self) {
        change(|tied| tied.connect_by_ms = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Lookups, Names};
    use crate::ports::{CancelReason, CancelToken, Clock};
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use ureq::http::Uri;

    /// Each look at it moves it on by 100 ms.
    #[derive(Default)]
    struct Striding(AtomicU64);

    impl Clock for Striding {
        fn now_ms(&self) -> u64 {
            self.monotonic_ms()
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.fetch_add(100, Ordering::SeqCst)
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    #[derive(Debug)]
    struct Hanging;

    impl Names for Hanging {
        fn look_up(&self, _: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
            loop {
                std::thread::park();
            }
        }
    }

    /// Why a lookup that hangs was left.
    fn left() -> Option<Cut> {
        let found = Lookups::new(&CallTether, Arc::new(Hanging)).all(&Uri::from_static("http://a.test/"));
        cut_of(&found.expect_err("nothing is found").into_io())
    }

    #[test]
    fn a_lookup_that_hangs_is_left() {
        let patience = Patience { connect: Duration::from_secs(1), idle: Duration::from_secs(9) };
        let clock = Arc::new(Striding::default());
        let cancel = CancelToken::new(clock);
        let _held = hold(&cancel, patience);
        assert_eq!(left(), Some(Cut::Connect));
        cancel.cancel(CancelReason::Cancelled);
        assert_eq!(left(), Some(Cut::Pulled));
    }

    #[test]
    fn a_thread_without_a_tether_gets_no_network() {
        assert_eq!(left(), Some(Cut::Pulled));
    }
}
