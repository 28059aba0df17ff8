//! What a failed call means for the client and for a retry. Owns the mapping of statuses, error objects and broken
//! wires to `ModelError`; refuses to name URLs and keys (P9).

use super::endpoint::Endpoint;
use super::plea;
use super::redact::redact;
use super::tether::{self, Cut, Patience};
use crate::domain::secret::Secret;
use crate::ports::{Clock, ModelError};
use serde_json::Value;
use std::io;
use ureq::http::{HeaderMap, StatusCode};

/// The longest wait that a provider may ask for, milliseconds.
const RETRY_AFTER_MAX_MS: u64 = 3_600_000;
/// Codes of a 429 that no waiting cures.
const QUOTA_CODES: [&str; 5] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
    "insufficient_balance",
    "1113",
];
/// Words in an error's code or type that mean «try again».
const TRANSIENT_WORDS: [&str; 7] =
    ["rate_limit", "overloaded", "server_error", "unavailable", "timeout", "engine_overloaded", "internal"];

/// Knows what must not be quoted, and how long was waited.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    key: Secret,
    host: String,
    patience: Patience,
}

impl Teller {
    /// For calls to this endpoint with this key.
    pub(crate) fn new(endpoint: &Endpoint, key: Secret, patience: Patience) -> Self {
        // A loopback host is no secret, and its name is an ordinary word.
        let host = if endpoint.is_loopback() { String::new() } else { endpoint.host().to_owned() };
        Self { key, host, patience }
    }

    /// A call that failed before or between the heads.
    pub(crate) fn wire(&self, error: ureq::Error) -> ModelError {
        match error {
            ureq::Error::Io(error) => self.read(&error),
            ureq::Error::HostNotFound => {
                unavailable("the model's provider cannot be found: its host name is unknown")
            }
            ureq::Error::LargeResponseHeader(..) => {
                ModelError::TooLarge("the provider's headers are too long".into())
            }
            ureq::Error::Rustls(_) | ureq::Error::Tls(_) => {
                unavailable("the secure connection to the model's provider failed")
            }
            ureq::Error::Protocol(_) => unavailable("the model's provider does not speak HTTP/1.1"),
            _ => unavailable("the model's provider cannot be reached"),
        }
    }

    /// An answer that broke off.
    pub(crate) fn read(&self, error: &io::Error) -> ModelError {
        match tether::cut_of(error) {
            Some(Cut::Pulled) => ModelError::Stopped,
            Some(Cut::Connect) => unavailable(format!(
                "no connection to the model's provider within {} s",
                self.patience.connect.as_secs()
            )),
            Some(Cut::Idle) => {
                unavailable(format!("the model's provider was silent for {} s", self.patience.idle.as_secs()))
            }
            None => unavailable(match error.kind() {
                io::ErrorKind::ConnectionRefused => "the model's provider refused the connection",
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                    "the model's provider cannot be reached: no route to it"
                }
                io::ErrorKind::InvalidData => "the secure connection to the model's provider failed",
                _ => "the connection to the model's provider broke off",
            }),
        }
    }

    /// An answer whose status is not 2xx.
    pub(crate) fn status(&self, status: StatusCode, retry_after_ms: Option<u64>, body: &str) -> ModelError {
        let parsed = serde_json::from_str::<Value>(body).ok();
        let error = parsed.as_ref().map(|body| body.get("error").unwrap_or(body));
        let detail = match error.and_then(words) {
            // The provider quotes the key that it refuses.
            _ if status == StatusCode::UNAUTHORIZED => String::new(),
            Some(said) => format!(": {}", redact(said, self.key.reveal(), &self.host)),
            None => String::new(),
        };
        let code = status.as_u16();
        if code == 429 {
            plea::note();
        }
        let message = match code {
            401 => "the model's provider does not accept the configured key (HTTP 401)".to_owned(),
            429 => format!("the model's provider is limiting requests (HTTP 429){detail}"),
            408 | 409 | 500..=599 => format!("the model's provider is in trouble (HTTP {code}){detail}"),
            300..=399 => {
                format!("the model's provider redirects (HTTP {code}); api_url must name the final address")
            }
            _ => format!("the model's provider refused the request (HTTP {code}){detail}"),
        };
        let spent = error.is_some_and(|e| ["code", "type"].iter().any(|k| is_one_of(e.get(k), &QUOTA_CODES)));
        if matches!(code, 408 | 409 | 429 | 500..=599) && !spent {
            ModelError::Unavailable { message, retry_after_ms }
        } else {
            ModelError::Refused(message)
        }
    }

    /// An error object in an answer that began with 200.
    pub(crate) fn error_object(&self, error: &Value) -> ModelError {
        if is_plea(error) {
            plea::note();
        }
        let said = words(error).unwrap_or("no reason given");
        let message =
            format!("the model's provider reports an error: {}", redact(said, self.key.reveal(), &self.host));
        if is_transient(error) {
            ModelError::Unavailable { message, retry_after_ms: None }
        } else {
            ModelError::Refused(message)
        }
    }
}

/// Another try may help.
pub(crate) fn unavailable(message: impl Into<String>) -> ModelError {
    ModelError::Unavailable { message: message.into(), retry_after_ms: None }
}

fn words(error: &Value) -> Option<&str> {
    let text = |value: &'_ Value| value.as_str().is_some_and(|s| !s.trim().is_empty());
    let found = [Some(error), error.get("message"), error.get("detail"), error.get("error")];
    found.into_iter().flatten().find(|v| text(v)).and_then(Value::as_str)
}

fn is_one_of(value: Option<&Value>, codes: &[&str]) -> bool {
    value.and_then(Value::as_str).is_some_and(|v| codes.contains(&v))
}

/// The provider gets too many calls; it is not in trouble.
fn is_plea(error: &Value) -> bool {
    let says = |key: &str| match error.get(key) {
        Some(Value::Number(number)) => number.as_u64() == Some(429),
        Some(Value::String(text)) => text == "429" || text.to_ascii_lowercase().contains("rate_limit"),
        _ => false,
    };
    says("code") || says("status") || says("type")
}

fn is_transient(error: &Value) -> bool {
    let number = |key: &str| {
        let value = error.get(key)?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok())
    };
    if let Some(status) = number("code").or_else(|| number("status")).filter(|s| (400..600).contains(s)) {
        return matches!(status, 408 | 409 | 429 | 500..);
    }
    if ["code", "type"].iter().any(|key| is_one_of(error.get(key), &QUOTA_CODES)) {
        return false;
    }
    let hints = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    let said = format!("{} {}", hints("code"), hints("type"));
    TRANSIENT_WORDS.iter().any(|word| said.contains(word))
}

/// What the provider asks to wait: `retry-after-ms`, or `Retry-After` in seconds or as a date.
pub(crate) fn retry_after_ms(headers: &HeaderMap, clock: &dyn Clock) -> Option<u64> {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    let exact = header("retry-after-ms").and_then(|ms| ms.parse::<u64>().ok());
    let asked = exact.or_else(|| {
        let text = header("retry-after")?;
        match text.parse::<f64>() {
            Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => millis(seconds),
            _ => until_date(text, clock.now_ms()),
        }
    });
    asked.map(|ms| ms.min(RETRY_AFTER_MAX_MS))
}

fn millis(seconds: f64) -> Option<u64> {
    std::time::Duration::try_from_secs_f64(seconds).ok().and_then(|d| u64::try_from(d.as_millis()).ok())
}

fn until_date(text: &str, now_ms: u64) -> Option<u64> {
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(u64::try_from(date).ok()?.saturating_sub(now_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::StopFlag;
    use serde_json::json;
    use std::time::Duration;

    struct At(u64);

    impl Clock for At {
        fn now_ms(&self) -> u64 {
            self.0
        }
        fn monotonic_ms(&self) -> u64 {
            self.0
        }
        fn pause(&self, _: &StopFlag, _: Duration) {}
    }

    fn teller() -> Teller {
        let endpoint =
            Endpoint::parse("https://api.secret.test/v1", super::super::endpoint::CHAT).expect("a URL");
        let patience = Patience { connect: Duration::from_secs(10), idle: Duration::from_secs(120) };
        Teller::new(&endpoint, Secret::from("topsecret".to_owned()), patience)
    }

    fn refused(error: &ModelError) -> bool {
        matches!(error, ModelError::Refused(_))
    }

    #[test]
    fn statuses_that_pass_are_retryable_and_others_are_not() {
        for (status, again) in
            [(400, false), (401, false), (402, false), (404, false), (408, true), (409, true), (422, false)]
        {
            let error = teller().status(StatusCode::from_u16(status).expect("a status"), None, "{}");
            assert_eq!(refused(&error), !again, "{status}: {error}");
        }
        let busy = teller().status(StatusCode::SERVICE_UNAVAILABLE, Some(7), "<html>busy</html>");
        assert!(matches!(busy, ModelError::Unavailable { retry_after_ms: Some(7), .. }), "{busy:?}");
    }

    #[test]
    fn a_spent_quota_is_not_retried() {
        let body = json!({"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}})
            .to_string();
        assert!(refused(&teller().status(StatusCode::TOO_MANY_REQUESTS, Some(1), &body)));
        let body = json!({"error": {"message": "slow down", "code": "rate_limit_exceeded"}}).to_string();
        assert!(!refused(&teller().status(StatusCode::TOO_MANY_REQUESTS, Some(1), &body)));
    }

    #[test]
    fn p9_the_text_names_neither_url_nor_key() {
        let body =
            json!({"error": {"message": "key topsecret at https://api.secret.test/v1 is bad"}}).to_string();
        for status in [StatusCode::UNAUTHORIZED, StatusCode::BAD_REQUEST, StatusCode::BAD_GATEWAY] {
            let told = teller().status(status, None, &body).to_string();
            assert!(!told.contains("topsecret") && !told.contains("secret.test"), "{told}");
        }
    }

    #[test]
    fn error_objects_are_told_apart() {
        for (error, again) in [
            (json!({"code": 400, "message": "Token limit reached"}), false),
            (json!({"code": "429", "message": "slow"}), true),
            (json!({"code": 502, "message": "upstream"}), true),
            (json!({"type": "overloaded_error", "message": "busy"}), true),
            (json!({"type": "insufficient_quota"}), false),
            (json!("what"), false),
        ] {
            assert_eq!(refused(&teller().error_object(&error)), !again, "{error}");
        }
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let asked = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header value"));
            retry_after_ms(&headers, &At(1_445_412_470_000))
        };
        assert_eq!(asked("retry-after", "2"), Some(2_000));
        assert_eq!(asked("retry-after", "0.5"), Some(500));
        assert_eq!(asked("retry-after-ms", "70"), Some(70));
        assert_eq!(asked("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"), Some(10_000));
        assert_eq!(asked("retry-after", "999999999"), Some(RETRY_AFTER_MAX_MS));
        assert_eq!(asked("retry-after", "soon"), None);
    }
}
