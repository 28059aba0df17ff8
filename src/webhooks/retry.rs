//! The retry schedule of webhooks (Standard Webhooks 1.0). Pure: time and randomness come in as arguments.

use super::error::SendError;
use super::sender::WebhookResponse;
use crate::domain::webhook::{AfterAttempt, DeliveryAttempt};
use crate::net::retry_after_s;

/// Delay before each attempt, seconds: ten attempts over three days.
const WAITS_S: [u64; 10] =
    [0, 5, 5 * 60, 30 * 60, 2 * 3_600, 5 * 3_600, 10 * 3_600, 14 * 3_600, 20 * 3_600, 24 * 3_600];
/// Jitter in percent, so that deliveries that failed together are not retried together.
const JITTER_PERCENT: u64 = 10;
/// Maximum `Retry-After` that is honoured, seconds.
const RETRY_AFTER_MAX_S: u64 = 24 * 3_600;

/// HTTP 410: the receiver wants no more deliveries.
const GONE: u16 = 410;

/// Time and randomness of a decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetryMoment {
    /// Unix milliseconds.
    pub(super) now_ms: u64,
    /// 128 random bits.
    pub(super) random: u128,
}

/// The attempt record for an outcome, after `tries` earlier attempts.
pub(super) fn attempt(
    outcome: &Result<WebhookResponse, SendError>,
    tries: u32,
    at: RetryMoment,
) -> DeliveryAttempt {
    match outcome {
        Ok(WebhookResponse { status: status @ 200..=299, .. }) => {
            DeliveryAttempt { status: Some(*status), error: None, next: AfterAttempt::Delivered }
        }
        Ok(WebhookResponse { status: GONE, .. }) => DeliveryAttempt {
            status: Some(GONE),
            error: Some("the receiver answered 410: it wants no more of this".to_owned()),
            next: AfterAttempt::Dead,
        },
        Ok(WebhookResponse { status, retry_after }) => DeliveryAttempt {
            status: Some(*status),
            error: Some(format!("the receiver answered {status}")),
            next: next_attempt(tries, retry_after.as_deref(), at),
        },
        Err(error @ SendError::Refused) => {
            DeliveryAttempt { status: None, error: Some(error.to_string()), next: AfterAttempt::Dead }
        }
        Err(error) => DeliveryAttempt {
            status: None,
            error: Some(error.to_string()),
            next: next_attempt(tries, None, at),
        },
    }
}

/// When to retry: not before the receiver's `Retry-After`; `Dead` after the last attempt.
fn next_attempt(tries: u32, retry_after: Option<&str>, at: RetryMoment) -> AfterAttempt {
    let attempts = usize::try_from(tries).unwrap_or(usize::MAX).saturating_add(1);
    let Some(scheduled_s) = WAITS_S.get(attempts) else { return AfterAttempt::Dead };
    let requested_s = retry_after.and_then(|text| retry_after_s(text, at.now_ms)).unwrap_or(0);
    let wait_ms = jittered(scheduled_s.saturating_mul(1_000), at.random)
        .max(requested_s.min(RETRY_AFTER_MAX_S).saturating_mul(1_000));
    AfterAttempt::Retry { at_ms: at.now_ms.saturating_add(wait_ms) }
}

fn jittered(wait_ms: u64, random: u128) -> u64 {
    let max_jitter_ms = u128::from(wait_ms / 100 * JITTER_PERCENT);
    let offset_ms = u64::try_from(random % (2 * max_jitter_ms + 1)).unwrap_or(0);
    (wait_ms - wait_ms / 100 * JITTER_PERCENT).saturating_add(offset_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: u64 = 1_700_000_000_000;

    fn answered(status: u16, retry_after: Option<&str>, tries: u32) -> DeliveryAttempt {
        let answer = WebhookResponse { status, retry_after: retry_after.map(str::to_owned) };
        attempt(&Ok(answer), tries, RetryMoment { now_ms: NOW_MS, random: 0 })
    }

    fn wait_ms(attempt: &DeliveryAttempt) -> Option<u64> {
        match attempt.next {
            AfterAttempt::Retry { at_ms } => Some(at_ms - NOW_MS),
            _ => None,
        }
    }

    #[test]
    fn p8_a_delivery_is_dead_after_ten_attempts_over_three_days() {
        let waits: Vec<Option<u64>> = (0..11).map(|tries| wait_ms(&answered(500, None, tries))).collect();
        let shortest = WAITS_S.iter().skip(1).map(|wait_s| Some(wait_s * 900));
        assert_eq!(waits[..9], shortest.collect::<Vec<_>>());
        assert_eq!(waits[9..], [None, None]);
        assert_eq!(answered(500, None, 9).next, AfterAttempt::Dead);
        assert_eq!(answered(500, None, u32::MAX).next, AfterAttempt::Dead);
        assert_eq!(WAITS_S.iter().sum::<u64>() / 3_600, 75, "hours");
    }

    #[test]
    fn status_2xx_is_delivered_410_is_dead_and_others_are_retried() {
        for status in [200, 201, 204, 299] {
            assert_eq!(answered(status, None, 0).next, AfterAttempt::Delivered);
        }
        assert_eq!(answered(410, Some("1"), 0).next, AfterAttempt::Dead);
        for status in [301, 302, 307, 400, 404, 429, 500, 503] {
            let attempt = answered(status, None, 0);
            assert!(wait_ms(&attempt).is_some() && attempt.status == Some(status), "{attempt:?}");
        }
    }

    #[test]
    fn a_refused_address_is_dead_at_once_and_a_failure_is_retried() {
        let at = RetryMoment { now_ms: NOW_MS, random: 0 };
        let attempt = super::attempt(&Err(SendError::Refused), 0, at);
        assert_eq!(attempt.next, AfterAttempt::Dead);
        assert!(attempt.error.expect("a reason").contains("not on the public internet"));
        let failed = super::attempt(&Err(SendError::Failed("no answer in time".into())), 0, at);
        assert_eq!(wait_ms(&failed), Some(4_500));
    }

    #[test]
    fn retry_after_is_honoured_up_to_a_day_and_never_shortens_the_delay() {
        let waited = |header: &str| wait_ms(&answered(503, Some(header), 0));
        assert_eq!(waited("120"), Some(120_000));
        assert_eq!(waited(" 120 "), Some(120_000));
        assert_eq!(waited("99999999999999999999999"), Some(86_400_000));
        // 1,700,000,000 is Tue, 14 Nov 2023 22:13:20 UTC.
        assert_eq!(waited("Tue, 14 Nov 2023 22:15:20 GMT"), Some(120_000));
        for ignored in ["1", "0", "soon", "-5", "", "Tue, 14 Nov 2023 22:00:00 GMT"] {
            assert_eq!(waited(ignored), Some(4_500), "{ignored}");
        }
    }

    proptest! {
        #[test]
        fn jitter_stays_within_a_tenth(random: u128, at in 0_usize..10) {
            let wait_ms = WAITS_S[at] * 1_000;
            let jittered = jittered(wait_ms, random);
            prop_assert!(jittered >= wait_ms / 10 * 9 && jittered <= wait_ms / 10 * 11, "{jittered}");
        }

        #[test]
        fn no_retry_after_value_panics(text in any::<String>()) {
            retry_after_s(&text, NOW_MS);
        }
    }
}
