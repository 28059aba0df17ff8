//! Whether a provider has said, in the call that this thread makes, that it gets too many of them. Owns that one bit:
//! to whoever waits for an answer it is like any other trouble, to those who come next it is not.
//!
//! As with [`super::tether`], a call runs on one thread from start to end, and the bit waits there.

use std::cell::Cell;

thread_local! {
    static IS_LIMITED: Cell<bool> = const { Cell::new(false) };
}

/// A call begins.
pub(crate) fn forget() {
    IS_LIMITED.set(false);
}

/// The provider says that it limits calls.
pub(super) fn note() {
    IS_LIMITED.set(true);
}

/// Whether it has said so since the call began.
pub(crate) fn is_noted() -> bool {
    IS_LIMITED.get()
}
