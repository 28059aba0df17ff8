//! Ties a thread's network waits to the leash of the request that it makes: `ureq` hands a transport no context, but a
//! request runs on one thread from start to end. Owns that tie; refuses to know sockets.

use crate::ports::Leash;
use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;
use std::time::Duration;

/// The longest wait for the network without asking the leash.
pub(super) const SLICE: Duration = Duration::from_millis(150);

/// The leash was pulled, or the time for the request is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped")]
pub(super) struct Cut;

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

thread_local! {
    static TETHER: RefCell<Option<Leash>> = const { RefCell::new(None) };
}

/// Unties the leash when dropped. Stays on its thread.
#[derive(Debug)]
#[must_use = "the leash is untied when this is dropped"]
pub(super) struct Held(PhantomData<*const ()>);

impl Drop for Held {
    fn drop(&mut self) {
        TETHER.with_borrow_mut(|tether| *tether = None);
    }
}

/// Ties this thread's network waits to the leash.
pub(super) fn hold(leash: &Leash) -> Held {
    TETHER.with_borrow_mut(|tether| *tether = Some(leash.clone()));
    Held(PhantomData)
}

/// Whether to go on. A thread without a tether gets no network: better a refused wait than one that nobody can end.
pub(super) fn check() -> Result<(), Cut> {
    match remaining() {
        left if left.is_zero() => Err(Cut),
        _ => Ok(()),
    }
}

/// What is left of the time; none once the leash is pulled.
pub(super) fn remaining() -> Duration {
    TETHER.with_borrow(|tether| match tether {
        Some(leash) if !leash.is_pulled() => leash.remaining(),
        _ => Duration::ZERO,
    })
}

/// Whether a cut is behind an error of `ureq` or of a body reader.
pub(super) fn is_cut(error: &io::Error) -> bool {
    let Some(inner) = error.get_ref() else { return false };
    match inner.downcast_ref::<ureq::Error>() {
        // A packed body breaks off inside its decoder.
        Some(ureq::Error::Io(deeper) | ureq::Error::Decompress(_, deeper)) => is_cut(deeper),
        _ => inner.is::<Cut>() || inner.downcast_ref::<io::Error>().is_some_and(is_cut),
    }
}
