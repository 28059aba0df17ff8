//! Parses `Retry-After` and the rate-limit headers of responses. A wait is at most an hour.

use crate::ports::Clock;
use jiff::{Span, SpanRelativeTo, Unit};
use ureq::http::{HeaderMap, StatusCode};

/// The longest wait that a provider may ask for, milliseconds.
const WAIT_MAX_MS: u64 = 3_600_000;
/// A larger number is a time in seconds since 1970.
const UNIX_SECONDS: f64 = 1e9;
/// A larger number is a time in milliseconds since 1970.
const UNIX_MILLIS: f64 = 1e12;
/// Headers for the reset of a limit and for its remaining quota.
const RESETS: [(&str, &str); 6] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
];

/// The wait that a response asks for, milliseconds. `retry-after-ms` and `Retry-After` come first; with 429
/// the reset of a limit counts too.
pub(crate) fn wait_ms(status: StatusCode, headers: &HeaderMap, clock: &dyn Clock) -> Option<u64> {
    let exact = header(headers, "retry-after-ms").and_then(|ms| ms.parse::<u64>().ok());
    let wait = exact.or_else(|| span_ms(header(headers, "retry-after")?, clock.now_ms()));
    let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
    let wait = wait.or_else(|| reset_ms(headers, clock.now_ms()).filter(|_| is_limit));
    wait.map(|ms| ms.min(WAIT_MAX_MS))
}

/// The latest reset of the exhausted limits; if none is exhausted, the earliest reset.
fn reset_ms(headers: &HeaderMap, now_ms: u64) -> Option<u64> {
    let resets =
        || RESETS.iter().filter_map(|(at, left)| Some((span_ms(header(headers, at)?, now_ms)?, *left)));
    let is_spent =
        |left: &str| header(headers, left).and_then(|n| n.parse::<f64>().ok()).is_some_and(|n| n <= 0.0);
    let spent = resets().filter(|(_, left)| is_spent(left)).map(|(ms, _)| ms).max();
    spent.or_else(|| resets().map(|(ms, _)| ms).min())
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// A duration or a time in any form: `2`, `0.5`, `7.66s`, `6m0s`, seconds or milliseconds since 1970, a date.
fn span_ms(text: &str, now_ms: u64) -> Option<u64> {
    match text.parse::<f64>() {
        Ok(number) if !number.is_finite() || number < 0.0 => None,
        Ok(number) if number >= UNIX_MILLIS => Some(millis(number / 1000.0)?.saturating_sub(now_ms)),
        Ok(number) if number >= UNIX_SECONDS => Some(millis(number)?.saturating_sub(now_ms)),
        Ok(number) => millis(number),
        Err(_) => units_ms(text).or_else(|| until_date_ms(text, now_ms)),
    }
}

/// A sum of units: `6m0s`, `12ms`.
fn units_ms(text: &str) -> Option<u64> {
    let span: Span = text.parse().ok()?;
    millis(span.total((Unit::Second, SpanRelativeTo::days_are_24_hours())).ok()?)
}

fn millis(seconds: f64) -> Option<u64> {
    std::time::Duration::try_from_secs_f64(seconds).ok().and_then(|d| u64::try_from(d.as_millis()).ok())
}

fn until_date_ms(text: &str, now_ms: u64) -> Option<u64> {
    let date = match jiff::fmt::rfc2822::parse(text) {
        Ok(date) => date.timestamp(),
        Err(_) => text.parse::<jiff::Timestamp>().ok()?,
    };
    Some(u64::try_from(date.as_millisecond()).ok()?.saturating_sub(now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::CancelToken;
    use std::time::Duration;

    const NOW_MS: u64 = 1_445_412_470_000;

    struct At(u64);

    impl Clock for At {
        fn now_ms(&self) -> u64 {
            self.0
        }
        fn monotonic_ms(&self) -> u64 {
            self.0
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    fn wait_of(status: u16, list: &[(&'static str, &str)]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.insert(*name, value.parse().expect("a header value"));
        }
        wait_ms(StatusCode::from_u16(status).expect("a status"), &headers, &At(NOW_MS))
    }

    #[test]
    fn retry_after_is_parsed_in_all_its_forms() {
        for (name, value, wait) in [
            ("retry-after", "2", Some(2_000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after", "30s", Some(30_000)),
            ("retry-after-ms", "70", Some(70)),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", Some(10_000)),
            ("retry-after", "Wed, 21 Oct 2015 07:20:00 GMT", Some(0)),
            ("retry-after", "999999999", Some(WAIT_MAX_MS)),
            ("retry-after", "soon", None),
            ("retry-after", "-1", None),
            ("retry-after", "NaN", None),
        ] {
            assert_eq!(wait_of(503, &[(name, value)]), wait, "{value}");
        }
    }

    #[test]
    fn a_429_without_retry_after_waits_for_the_rate_limit_reset() {
        for (value, wait) in [
            ("1s", Some(1_000)),
            ("6m0s", Some(360_000)),
            ("12ms", Some(12)),
            ("7.66s", Some(7_660)),
            ("1h2m3.5s", Some(WAIT_MAX_MS)),
            ("17", Some(17_000)),
            ("1445412480", Some(10_000)),
            ("1445412480000", Some(10_000)),
            ("2015-10-21T07:28:00Z", Some(10_000)),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(wait_of(429, &[("x-ratelimit-reset", value)]), wait, "{value}");
        }
        assert_eq!(wait_of(503, &[("x-ratelimit-reset", "1s")]), None, "no call was limited");
        assert_eq!(wait_of(429, &[("retry-after", "2"), ("x-ratelimit-reset", "9s")]), Some(2_000));
    }

    #[test]
    fn the_exhausted_limit_counts() {
        let both = [("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-reset-tokens", "8s")];
        assert_eq!(wait_of(429, &both), Some(8_000));
        let requests = [&both[..], &[("x-ratelimit-remaining-requests", "0")]].concat();
        assert_eq!(wait_of(429, &requests), Some(360_000));
    }
}
