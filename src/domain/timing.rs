//! When something is due, again and again: one time, an interval, a cron expression in a zone. Owns the arithmetic;
//! refuses to know what time it is now, which comes in as an argument.

mod cron;
mod given;
mod zones;

pub use cron::{Cron, CronError, DEFAULT_ZONE};
pub use given::{EVERY_MAX_S, TimingError, TimingRequest, read_time};
pub use zones::zone;

use serde::{Deserialize, Serialize};

/// An occurrence further ahead of the clock than this was fired by a clock that was wrong, milliseconds.
const WRONG_CLOCK_MS: u64 = 24 * 60 * 60 * 1_000;

/// When a schedule is due. All times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Once, at this time.
    At(u64),
    /// Every so many seconds, for ever.
    Every {
        /// 1 or more.
        seconds: u64,
        /// A time from which they are counted, forwards and backwards.
        anchor_ms: u64,
    },
    /// Whenever a wall clock shows what the expression says.
    Cron(Box<Cron>),
}

impl Timing {
    /// The first occurrence of something that begins at `now_ms`. One time that has just passed is due at once.
    pub fn first(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::At(at_ms) => Some(*at_ms),
            _ => self.next_after(now_ms),
        }
    }

    /// The first occurrence strictly after `ms`; `None` when there is none before the calendar ends.
    pub fn next_after(&self, ms: u64) -> Option<u64> {
        match self {
            Self::At(at_ms) => Some(*at_ms).filter(|at| *at > ms),
            Self::Every { seconds, anchor_ms } => {
                let step = seconds.saturating_mul(1_000).max(1);
                let since = ms.checked_rem(step)?.saturating_add(step).saturating_sub(anchor_ms % step);
                ms.checked_add(step)?.checked_sub(since.checked_rem(step)?)
            }
            Self::Cron(cron) => cron.next_after(ms),
        }
    }

    /// What an occurrence that was computed from a clock that has since gone back to `now_ms` becomes.
    ///
    /// An occurrence that has fired does not fire again because the clock shows its time again, unless it lies so far
    /// ahead that the clock must have been wrong when it fired. An interval is never longer than itself.
    pub fn again(&self, now_ms: u64, last_due_ms: Option<u64>) -> Option<u64> {
        let fired = last_due_ms.filter(|due| due.saturating_sub(now_ms) <= WRONG_CLOCK_MS);
        let next = self.next_after(fired.unwrap_or(now_ms).max(now_ms));
        match self {
            // Armed means not fired: it is still to come.
            Self::At(at_ms) => Some(*at_ms),
            Self::Every { seconds, .. } => {
                next.map(|next| next.min(now_ms.saturating_add(seconds.saturating_mul(1_000))))
            }
            Self::Cron(_) => next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR_MS: u64 = 3_600_000;

    #[test]
    fn one_time_is_due_once() {
        let at = Timing::At(5_000);
        assert_eq!(
            (at.first(9_000), at.next_after(4_999), at.next_after(5_000)),
            (Some(5_000), Some(5_000), None)
        );
    }

    #[test]
    fn an_interval_is_counted_from_its_anchor_in_both_directions() {
        let every = Timing::Every { seconds: 10, anchor_ms: 23_000 };
        assert_eq!(every.first(23_000), Some(33_000));
        assert_eq!(every.next_after(32_999), Some(33_000));
        assert_eq!(every.next_after(33_000), Some(43_000));
        assert_eq!(every.next_after(0), Some(3_000));
        assert_eq!(every.next_after(u64::MAX - 1), None);
    }

    #[test]
    fn a_clock_that_went_back_an_hour_repeats_no_occurrence_and_stretches_no_interval() {
        let hourly = Timing::Cron(Box::new(Cron::new("0 * * * *", "UTC").unwrap()));
        let noon = 1_800_014_400_000 / HOUR_MS * HOUR_MS;
        assert_eq!(hourly.again(noon - HOUR_MS / 2, Some(noon)), Some(noon + HOUR_MS));
        let every = Timing::Every { seconds: 1, anchor_ms: noon };
        assert_eq!(every.again(noon - HOUR_MS, Some(noon)), Some(noon - HOUR_MS + 1_000));
    }

    #[test]
    fn what_a_clock_ten_years_ahead_fired_does_not_count() {
        let daily = Timing::Cron(Box::new(Cron::new("@daily", "UTC").unwrap()));
        let (now, far) = (1_800_000_000_000, 2_115_000_000_000);
        assert_eq!(daily.again(now, Some(far)), daily.next_after(now));
        assert_eq!(Timing::At(far).again(now, None), Some(far), "not lost");
    }

    proptest! {
        #[test]
        fn intervals_are_strictly_later_monotone_and_on_their_grid(
            seconds in 1..400_000_000_u64, anchor in 0..4_000_000_000_000_u64, one in 0..4_000_000_000_000_u64, more in 0..10_000_000_u64,
        ) {
            let every = Timing::Every { seconds, anchor_ms: anchor };
            let next = every.next_after(one).unwrap();
            prop_assert!(next > one && next - one <= seconds * 1_000);
            prop_assert_eq!(next.abs_diff(anchor) % (seconds * 1_000), 0);
            prop_assert!(every.next_after(one + more).unwrap() >= next);
            prop_assert!(every.again(one, Some(one + more)).unwrap() <= one + seconds * 1_000);
        }
    }
}
