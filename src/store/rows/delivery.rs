//! How long stores keep settled webhook deliveries.

/// Retention of settled deliveries, milliseconds.
pub(crate) const KEPT_MS: u64 = 30 * 24 * 3_600 * 1_000;

/// Maximum old deliveries that settling one removes: more than one, so that they cannot pile up.
pub(crate) const SWEEP: u32 = 16;
