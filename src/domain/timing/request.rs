//! Timing as a client or a model writes it: one time, an interval or a cron expression.

use super::{Cron, CronError, DEFAULT_ZONE, Timing, zone};
use crate::domain::schedule::CLOCK_SLACK_MS;

/// Maximum interval: ten years, in seconds.
pub const EVERY_MAX_S: u64 = 10 * 365 * 86_400;

/// Error text when none or several of the keys are given.
const ONE_TIMING: &str = "give exactly one of 'at' (unix seconds or an RFC 3339 time), 'every_s' (seconds) and 'cron' (an expression, \
     with 'tz' for its time zone)";

/// The four keys, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimingRequest {
    /// Once, at this time, unix milliseconds.
    pub at_ms: Option<u64>,
    /// Every so many seconds.
    pub every_s: Option<u64>,
    /// Cron expression.
    pub cron: Option<String>,
    /// Time zone of the expression.
    pub tz: Option<String>,
}

/// Why a timing is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TimingError {
    /// The wrong key; `None` when their combination is wrong.
    pub key: Option<&'static str>,
    /// The problem.
    pub message: String,
}

impl TimingRequest {
    /// Validates the timing; `now_ms` is the time of the request.
    pub fn check(self, now_ms: u64) -> Result<Timing, TimingError> {
        let fault = |key, message: String| TimingError { key: Some(key), message };
        if self.tz.is_some() && self.cron.is_none() {
            let message = "'tz' is the time zone of 'cron' and means nothing without it".to_owned();
            return Err(fault("tz", message));
        }
        match (self.at_ms, self.every_s, self.cron) {
            (Some(at_ms), None, None) if at_ms.saturating_add(CLOCK_SLACK_MS) < now_ms => {
                Err(fault("at", "'at' is in the past".to_owned()))
            }
            (Some(at_ms), None, None) => Ok(Timing::At(at_ms)),
            (None, Some(seconds), None) if !(1..=EVERY_MAX_S).contains(&seconds) => {
                Err(fault("every_s", format!("'every_s' must be a whole number from 1 to {EVERY_MAX_S}")))
            }
            (None, Some(seconds), None) => Ok(Timing::Every { seconds, anchor_ms: now_ms }),
            (None, None, Some(expression)) => {
                let zone = self.tz.as_deref().unwrap_or(DEFAULT_ZONE);
                let cron = Cron::new(&expression, zone)
                    .map_err(|error| fault(key_in_error(&error), error.to_string()))?;
                if cron.next_after(now_ms).is_none() {
                    return Err(fault("cron", "'cron' never comes true: there is no such date".to_owned()));
                }
                Ok(Timing::Cron(Box::new(cron)))
            }
            _ => Err(TimingError { key: None, message: ONE_TIMING.to_owned() }),
        }
    }
}

fn key_in_error(error: &CronError) -> &'static str {
    match error {
        CronError::Expression(_) => "cron",
        CronError::Zone { .. } => "tz",
    }
}

/// Parses a time to unix milliseconds: RFC 3339 with an offset, or a wall clock time in `zone` without one.
pub fn read_time(text: &str, zone: Option<&str>) -> Option<u64> {
    let text = text.trim();
    let of_zone = || {
        let zone = self::zone(zone.unwrap_or(DEFAULT_ZONE))?;
        Some(text.parse::<jiff::civil::DateTime>().ok()?.to_zoned(zone).ok()?.timestamp())
    };
    let instant = text.parse::<jiff::Timestamp>().ok().or_else(of_zone)?;
    u64::try_from(instant.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_without_an_offset_uses_the_given_zone() {
        assert_eq!(read_time("2030-01-01T00:00:00+01:00", None), Some(1_893_452_400_000));
        assert_eq!(read_time("2030-01-01T00:00:00", Some("Europe/Berlin")), Some(1_893_452_400_000));
        assert_eq!(read_time(" 2030-01-01T00:00 ", None), Some(1_893_456_000_000));
        for bad in ["tomorrow", "", "1969-01-01T00:00:00Z"] {
            assert_eq!(read_time(bad, None), None, "{bad}");
        }
        assert_eq!(read_time("2030-01-01T00:00:00", Some("Nowhere")), None);
    }

    #[test]
    fn an_invalid_timing_is_reported_with_its_key() {
        let now = 1_700_000_000_000;
        let checked = |given: TimingRequest| given.check(now).map_err(|fault| fault.key);
        let none = TimingRequest::default;
        assert_eq!(checked(none()), Err(None));
        assert_eq!(checked(TimingRequest { at_ms: Some(now - 100_000), ..none() }), Err(Some("at")));
        assert_eq!(checked(TimingRequest { every_s: Some(0), ..none() }), Err(Some("every_s")));
        assert_eq!(
            checked(TimingRequest { every_s: Some(5), tz: Some("UTC".into()), ..none() }),
            Err(Some("tz"))
        );
        assert_eq!(checked(TimingRequest { cron: Some("0 0 30 2 *".into()), ..none() }), Err(Some("cron")));
        assert_eq!(
            checked(TimingRequest { every_s: Some(5), ..none() }),
            Ok(Timing::Every { seconds: 5, anchor_ms: now })
        );
    }
}
