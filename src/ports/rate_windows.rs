//! Events that are counted by owner in windows of time: failed logins and requests. With a database, one
//! count holds for all nodes. A window begins with its first event; later events do not extend it.

use super::store_error::StoreError;

/// How many events an owner may have in a window of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateWindow<'a> {
    /// What is counted, such as `login account`.
    pub name: &'static str,
    /// Whose events are counted: a user, or an address.
    pub owner: &'a str,
    /// Length of the window, milliseconds.
    pub window_ms: u64,
    /// Maximum events in the window.
    pub limit: u64,
}

/// What became of events that were to be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedEvents {
    /// How many of them were counted; fewer than wanted if the window is full.
    pub counted: u64,
    /// Events in the window, these included.
    pub total: u64,
    /// Rest of the window, milliseconds.
    pub left_ms: u64,
}

/// Counts events. The number of owners is bounded, or their windows expire.
pub trait RateWindows: Send + Sync {
    /// Counts so many events, or as many of them as the window has room for.
    fn count(&self, window: &RateWindow<'_>, events: u64) -> Result<CountedEvents, StoreError>;
    /// Takes back one event of an open window.
    fn uncount(&self, window: &RateWindow<'_>) -> Result<(), StoreError>;
    /// Empties a window.
    fn forget(&self, window: &RateWindow<'_>) -> Result<(), StoreError>;
    /// Whether the window is open: it has an event.
    fn is_open(&self, window: &RateWindow<'_>) -> Result<bool, StoreError>;
}
