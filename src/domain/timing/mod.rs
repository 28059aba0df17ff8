//! Timing of schedules: one time, an interval, or a cron expression in a time zone. The current time is an
//! argument.

mod cron;
mod request;
mod zones;

pub use cron::{Cron, CronError, DEFAULT_ZONE};
pub use request::{EVERY_MAX_S, TimingError, TimingRequest, read_time};
pub use zones::zone;

use serde::{Deserialize, Serialize};

/// An occurrence further than this in the future was fired by a wrong clock, milliseconds.
const WRONG_CLOCK_MS: u64 = 24 * 60 * 60 * 1_000;

/// Occurrences of a cron expression that are compared for the shortest time between two of them.
const GAPS: usize = 200;

/// When a schedule is due. All times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timing {
    /// Once, at this time.
    At(u64),
    /// Every `every_s` seconds.
    Every {
        /// 1 or more.
        seconds: u64,
        /// A time that the interval is counted from, in both directions.
        anchor_ms: u64,
    },
    /// Whenever the wall clock matches the expression.
    Cron(Box<Cron>),
}

impl Timing {
    /// The first occurrence of a schedule made at `now_ms`. A time that has just passed is due at once.
    pub fn first(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::At(at_ms) => Some(*at_ms),
            _ => self.next_after(now_ms),
        }
    }

    /// The first occurrence after `ms`; `None` when there is none.
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

    /// The shortest time between two of the next occurrences after `now_ms`, milliseconds; `None` for a
    /// timing that occurs once.
    pub fn shortest_gap_ms(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::At(_) => None,
            Self::Every { seconds, .. } => Some(seconds.saturating_mul(1_000)),
            Self::Cron(_) => {
                let next = |ms: &u64| self.next_after(*ms);
                let times: Vec<u64> =
                    std::iter::successors(self.next_after(now_ms), next).take(GAPS).collect();
                times.windows(2).filter_map(|pair| pair.last()?.checked_sub(*pair.first()?)).min()
            }
        }
    }

    /// The next occurrence after the clock went back to `now_ms`.
    ///
    /// The occurrence that was due last does not fire again, unless it is so far in the future that the clock
    /// must have been wrong when it fired. An interval never becomes longer.
    pub fn again(&self, now_ms: u64, last_due_ms: Option<u64>) -> Option<u64> {
        let fired = last_due_ms.filter(|due| due.saturating_sub(now_ms) <= WRONG_CLOCK_MS);
        let next = self.next_after(now_ms);
        let next = match next {
            Some(due_ms) if next == fired => self.next_after(due_ms),
            _ => next,
        };
        match self {
            // An armed occurrence has not fired yet.
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
    fn a_one_time_schedule_is_due_once() {
        let at = Timing::At(5_000);
        assert_eq!(
            (at.first(9_000), at.next_after(4_999), at.next_after(5_000)),
            (Some(5_000), Some(5_000), None)
        );
    }

    #[test]
    fn intervals_are_counted_from_the_anchor_in_both_directions() {
        let every = Timing::Every { seconds: 10, anchor_ms: 23_000 };
        assert_eq!(every.first(23_000), Some(33_000));
        assert_eq!(every.next_after(32_999), Some(33_000));
        assert_eq!(every.next_after(33_000), Some(43_000));
        assert_eq!(every.next_after(0), Some(3_000));
        assert_eq!(every.next_after(u64::MAX - 1), None);
    }

    #[test]
    fn the_shortest_gap_of_a_timing_is_known() {
        let now = 1_800_014_400_000;
        let cron = |expression: &str| Timing::Cron(Box::new(Cron::new(expression, "UTC").unwrap()));
        assert_eq!(Timing::At(5).shortest_gap_ms(0), None);
        assert_eq!(Timing::Every { seconds: 7, anchor_ms: 0 }.shortest_gap_ms(now), Some(7_000));
        assert_eq!(cron("* * * * *").shortest_gap_ms(now), Some(60_000));
        assert_eq!(cron("0,5 9 * * *").shortest_gap_ms(now), Some(5 * 60_000));
        assert_eq!(cron("@daily").shortest_gap_ms(now), Some(24 * HOUR_MS));
    }

    #[test]
    fn a_clock_set_back_neither_repeats_a_cron_run_nor_delays_an_interval() {
        let hourly = Timing::Cron(Box::new(Cron::new("0 * * * *", "UTC").unwrap()));
        let noon = 1_800_014_400_000 / HOUR_MS * HOUR_MS;
        assert_eq!(hourly.again(noon - HOUR_MS / 2, Some(noon)), Some(noon + HOUR_MS));
        let every = Timing::Every { seconds: 1, anchor_ms: noon };
        assert_eq!(every.again(noon - HOUR_MS, Some(noon)), Some(noon - HOUR_MS + 1_000));
    }

    #[test]
    fn a_clock_set_back_does_not_delay_a_frequent_cron_schedule() {
        let often = Timing::Cron(Box::new(Cron::new("*/10 * * * * *", "UTC").unwrap()));
        let now = 1_800_014_400_000;
        assert_eq!(often.again(now, Some(now + 3 * HOUR_MS)), Some(now + 10_000));
        assert_eq!(often.again(now, Some(now + 10_000)), Some(now + 20_000), "not a second time");
    }

    #[test]
    fn a_last_run_far_in_the_future_is_ignored() {
        let daily = Timing::Cron(Box::new(Cron::new("@daily", "UTC").unwrap()));
        let (now, far) = (1_800_000_000_000, 2_115_000_000_000);
        assert_eq!(daily.again(now, Some(far)), daily.next_after(now));
        assert_eq!(Timing::At(far).again(now, None), Some(far), "not lost");
    }

    proptest! {
        #[test]
        fn interval_occurrences_are_later_monotone_and_aligned_to_the_anchor(
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
