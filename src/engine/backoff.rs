//! The delay before the next attempt of a failed job.

/// Exponential backoff with jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the second attempt, seconds.
    pub first_s: u64,
    /// Longest delay, seconds.
    pub longest_s: u64,
}

impl Backoff {
    /// Milliseconds to wait after failure number `failed` (counted from 1): `random` picks a point between
    /// half of the full delay and all of it, so that jobs that failed together do not all return at once.
    pub fn delay_ms(self, failed: u32, random: u128) -> u64 {
        let doublings = failed.saturating_sub(1).min(32);
        let full_s = self.first_s.saturating_mul(1 << doublings).min(self.longest_s);
        let half_ms = full_s.saturating_mul(1_000) / 2;
        let jitter_ms = u64::try_from(random % u128::from(half_ms.saturating_add(1))).unwrap_or(0);
        half_ms.saturating_add(jitter_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BACKOFF: Backoff = Backoff { first_s: 5, longest_s: 600 };

    proptest! {
        #[test]
        fn backoff_delays_double_up_to_the_limit_and_are_never_zero(failed in 1_u32..100, random: u128) {
            let full_ms = (5_000_u64 << (failed - 1).min(20)).min(600_000);
            let delay_ms = BACKOFF.delay_ms(failed, random);
            prop_assert!((full_ms / 2..=full_ms).contains(&delay_ms), "{delay_ms} of {full_ms}");
        }
    }
}
