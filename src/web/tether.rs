//! Ties a thread's network waits to the cancel of the request that it makes. Owns that tie; refuses to know sockets.

use crate::net::{Held, Tether, cut_of};
use crate::ports::CancelToken;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// The longest wait for the addresses of a name to take a connection.
const DIAL_TIME: Duration = Duration::from_secs(10);

/// The cancel was pulled, or the time for the request is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub(super) struct Cut;

impl From<Cut> for io::Error {
    fn from(cut: Cut) -> Self {
        Self::other(cut)
    }
}

thread_local! {
    static LEASH: RefCell<Option<CancelToken>> = const { RefCell::new(None) };
}

/// Ties this thread's network waits to the cancel.
pub(super) fn hold(cancel: &CancelToken) -> Held {
    LEASH.set(Some(cancel.clone()));
    Held::new(|| LEASH.set(None))
}

/// Whether to go on.
pub(super) fn check() -> Result<(), Cut> {
    if remaining().is_zero() { Err(Cut) } else { Ok(()) }
}

/// What is left of the time; none once the cancel is pulled.
fn remaining() -> Duration {
    LEASH.with_borrow(|cancel| match cancel {
        Some(cancel) if !cancel.is_cancelled() => cancel.remaining(),
        _ => Duration::ZERO,
    })
}

/// Whether a cut is behind an error of `ureq` or of a body reader.
pub(super) fn is_cut(error: &io::Error) -> bool {
    cut_of::<Cut>(error).is_some()
}

/// The cancel of the request that this thread makes.
#[derive(Debug)]
pub(super) struct RequestTether;

impl Tether for RequestTether {
    fn now_ms(&self) -> io::Result<u64> {
        LEASH.with_borrow(|cancel| {
            cancel.as_ref().map(|cancel| cancel.clock().monotonic_ms()).ok_or(Cut.into())
        })
    }

    fn check(&self, _: u64) -> io::Result<()> {
        Ok(check()?)
    }

    fn is_pulled(&self, error: &io::Error) -> bool {
        is_cut(error)
    }

    fn time_to_dial(&self) -> Duration {
        remaining().min(DIAL_TIME)
    }

    fn too_slow(&self) -> io::Error {
        ErrorKind::TimedOut.into()
    }
}
