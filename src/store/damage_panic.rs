//! Tells a panic over a damaged store that would abort the process.
//!
//! redb trusts its pages, and panics where a damaged list of free pages contradicts itself. That is caught,
//! but on the way a destructor of redb may panic again, over a lock that the first panic poisoned. Such a
//! panic cannot be caught: Rust aborts the process, a new one meets the same pages, and so on for ever.

use std::cell::Cell;
use std::panic::PanicHookInfo;

/// Exit code of a process whose store is damaged: `EX_DATAERR` of sysexits.h. A restart does not help.
pub const DAMAGED_EXIT: i32 = 65;

/// What a process says before a damaged store ends it.
pub const DAMAGED_STORE: &str = "the store is damaged and cannot be written: restore a backup (nanoclaw restore FILE), \
     or see what can still be read (nanoclaw check), move the file away and start with --new-store";

/// What Rust panics with before it aborts.
const LAST_PANIC: &str = "panic in a destructor during cleanup";
/// Part of the path of redb's sources.
const REDB_SOURCES: &str = "redb-";

thread_local! {
    /// Whether the last panic of this thread came from redb.
    static IS_OF_REDB: Cell<bool> = const { Cell::new(false) };
}

/// Whether Rust aborts the process after this panic because the store is damaged. Has to see every panic, so
/// call it in the panic hook, which may then end the process with [`DAMAGED_EXIT`].
pub fn is_about_to_abort(panic: &PanicHookInfo<'_>) -> bool {
    if panic.payload().downcast_ref::<&str>().is_some_and(|reason| *reason == LAST_PANIC) {
        return IS_OF_REDB.get();
    }
    IS_OF_REDB.set(panic.location().is_some_and(|place| place.file().contains(REDB_SOURCES)));
    false
}
