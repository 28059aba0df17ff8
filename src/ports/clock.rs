//! Clock and randomness. No other code reads the system's clock or random numbers.

use super::cancel::CancelToken;
use std::time::Duration;

/// The source of time.
pub trait Clock: Send + Sync {
    /// Wall time, unix milliseconds. May jump in both directions.
    fn now_ms(&self) -> u64;
    /// Milliseconds since a fixed point. Never goes back.
    fn monotonic_ms(&self) -> u64;
    /// Microseconds on the same scale, for measurements.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1_000)
    }
    /// Sleeps for `timeout`, or until the token is cancelled.
    fn sleep(&self, stop: &CancelToken, timeout: Duration);
}

/// The source of randomness.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn random(&self) -> u128;
    /// 256 random bits for secrets and keys.
    fn random_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        let halves = [self.random(), self.random()];
        for (slot, byte) in key.iter_mut().zip(halves.into_iter().flat_map(u128::to_be_bytes)) {
            *slot = byte;
        }
        key
    }
}
