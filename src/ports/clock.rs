//! Time and chance. Owns the traits that both come in through; nothing else in the crate reads a clock or a dice.

use super::cancel::CancelToken;
use std::time::Duration;

/// Time comes in here and nowhere else.
pub trait Clock: Send + Sync {
    /// Wall time, unix milliseconds. It may jump.
    fn now_ms(&self) -> u64;
    /// Milliseconds since some fixed point. It never goes back.
    fn monotonic_ms(&self) -> u64;
    /// The same in microseconds, for what is measured and not waited for.
    fn monotonic_us(&self) -> u64 {
        self.monotonic_ms().saturating_mul(1_000)
    }
    /// Waits for `timeout` or until `stop` is raised, whichever comes first.
    fn sleep(&self, stop: &CancelToken, timeout: Duration);
}

/// Randomness comes in here and nowhere else.
pub trait Entropy: Send + Sync {
    /// 128 random bits.
    fn random(&self) -> u128;
    /// 256 of them, as secrets and keys are made of.
    fn random_key(&self) -> [u8; 32] {
        let mut key = [0; 32];
        let halves = [self.random(), self.random()];
        for (slot, byte) in key.iter_mut().zip(halves.into_iter().flat_map(u128::to_be_bytes)) {
            *slot = byte;
        }
        key
    }
}
