//! What an answer of the collector means, after the specification of OTLP/HTTP 1.x. Pure.

use super::sender::CollectorResponse;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// First delay before a request is repeated, and the longest one.
const FIRST_DELAY_MS: u64 = 1_000;
const LONGEST_DELAY_MS: u64 = 60_000;
/// Longest `Retry-After` that is honoured.
const LONGEST_RETRY_AFTER_MS: u64 = 3_600_000;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    /// The collector has taken the spans, but for so many.
    Taken { rejected: u64, message: String },
    /// The request is to be repeated, not before this delay.
    Retry { after_ms: u64 },
    /// It never will take them.
    Refused,
}

impl RequestOutcome {
    pub(super) fn of(response: &CollectorResponse) -> Self {
        match response.status {
            200..=299 => {
                let ExportResponse { partial_success } =
                    serde_json::from_str(&response.body).unwrap_or_default();
                let PartialSuccess { rejected_spans, error_message } = partial_success.unwrap_or_default();
                Self::Taken { rejected: number(&rejected_spans), message: error_message.unwrap_or_default() }
            }
            429 | 502 | 503 | 504 => {
                let after_ms = response.retry_after_s.unwrap_or(0).saturating_mul(1_000);
                Self::Retry { after_ms: after_ms.min(LONGEST_RETRY_AFTER_MS) }
            }
            _ => Self::Refused,
        }
    }
}

/// The delay after so many failures, at least what the collector has asked for. `random` spreads several
/// servers over a quarter of it.
pub(super) fn delay(failures: u32, after_ms: u64, random: u128) -> Duration {
    let doubled = FIRST_DELAY_MS.saturating_mul(1 << failures.saturating_sub(1).min(16));
    let delay_ms = doubled.min(LONGEST_DELAY_MS).max(after_ms);
    let jitter_ms = u64::try_from(random % u128::from(delay_ms / 4 + 1)).unwrap_or(0);
    Duration::from_millis(delay_ms.saturating_add(jitter_ms))
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExportResponse {
    partial_success: Option<PartialSuccess>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    rejected_spans: Value,
    error_message: Option<String>,
}

/// A 64-bit number: a string, or a number of a collector that is less strict.
fn number(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.parse().unwrap_or(0),
        value => value.as_u64().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: u16, retry_after_s: Option<u64>, body: &str) -> RequestOutcome {
        RequestOutcome::of(&CollectorResponse { status, retry_after_s, body: body.to_owned() })
    }

    #[test]
    fn only_the_statuses_of_the_specification_are_repeated() {
        for status in [429, 502, 503, 504] {
            assert_eq!(outcome(status, None, ""), RequestOutcome::Retry { after_ms: 0 });
            assert_eq!(outcome(status, Some(7), ""), RequestOutcome::Retry { after_ms: 7_000 });
        }
        let longest = RequestOutcome::Retry { after_ms: LONGEST_RETRY_AFTER_MS };
        assert_eq!(outcome(503, Some(u64::MAX), ""), longest);
        for status in [301, 400, 401, 404, 413, 500, 501] {
            assert_eq!(outcome(status, Some(7), ""), RequestOutcome::Refused, "{status}");
        }
    }

    #[test]
    fn a_partial_success_says_how_many_spans_were_rejected() {
        let taken = |rejected, message: &str| RequestOutcome::Taken { rejected, message: message.to_owned() };
        for (body, wanted) in [
            ("", taken(0, "")),
            ("{}", taken(0, "")),
            ("{\"partialSuccess\":{}}", taken(0, "")),
            ("{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}", taken(3, "no")),
            ("{\"partialSuccess\":{\"rejectedSpans\":4}}", taken(4, "")),
            ("{\"partialSuccess\":{\"rejectedSpans\":\"2\",\"errorMessage\":null}}", taken(2, "")),
            ("<html>", taken(0, "")),
        ] {
            assert_eq!(outcome(200, None, body), wanted, "{body}");
        }
    }

    #[test]
    fn p8_delays_double_up_to_a_minute_unless_the_collector_wants_more() {
        let waited = |failures, after_ms| delay(failures, after_ms, 0).as_millis();
        assert_eq!(
            [1, 2, 3, 6, 7, u32::MAX].map(|failures| waited(failures, 0)),
            [1_000, 2_000, 4_000, 32_000, 60_000, 60_000]
        );
        assert_eq!(waited(1, 90_000), 90_000);
        assert_eq!(delay(1, 0, 250).as_millis(), 1_250, "jitter");
    }
}
