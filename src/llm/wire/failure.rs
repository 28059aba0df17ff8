//! What a failed call means for the client and for a retry. Owns the mapping of statuses, error objects and broken
//! wires to `ModelError`; refuses to name URLs and keys (P9).

use super::endpoint::Endpoint;
use super::plea;
use super::redact::redact;
use super::tether::{Cut, Patience};
use super::verdict::{self, Verdict};
pub(crate) use super::wait::wait_ms;
use crate::domain::secret::Secret;
use crate::llm::json;
use crate::net::cut_of;
use crate::ports::ModelError;
use serde_json::Value;
use std::io;
use ureq::http::StatusCode;

/// Shorter values of headers are words like others, and no secrets.
const SECRET_BYTES: usize = 8;

/// Knows what must not be quoted, and how long was waited.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    secrets: Vec<Secret>,
    host: String,
    patience: Patience,
}

impl Teller {
    /// For calls to this endpoint with this key.
    pub(crate) fn new(endpoint: &Endpoint, key: Secret, patience: Patience) -> Self {
        // A loopback host is no secret, and its name is an ordinary word.
        let host = if endpoint.is_loopback() { String::new() } else { endpoint.host().to_owned() };
        Self { secrets: vec![key], host, patience }
    }

    /// Quotes none of these either.
    #[must_use]
    pub(crate) fn hiding(mut self, secrets: impl Iterator<Item = Secret>) -> Self {
        self.secrets.extend(secrets.filter(|secret| secret.reveal().len() >= SECRET_BYTES));
        self
    }

    fn quote(&self, said: &str) -> String {
        redact(said, &self.secrets, &self.host)
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
        match cut_of(error) {
            Some(Cut::Pulled) => ModelError::Stopped,
            Some(Cut::Connect) => unavailable(format!(
                "no connection to the model's provider within {} s",
                self.patience.connect.as_secs()
            )),
            Some(Cut::Idle) => {
                unavailable(format!("the model's provider was silent for {} s", self.patience.idle.as_secs()))
            }
            Some(Cut::Stalled) => unavailable(format!(
                "the model's provider sent nothing of an answer for {} s",
                self.patience.stall().as_secs()
            )),
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
        let parsed = json::parse(body).map(|parsed| parsed.value);
        let error = parsed.as_ref().map(inner);
        let detail = match error.and_then(verdict::said) {
            // The provider quotes the key that it refuses.
            _ if status == StatusCode::UNAUTHORIZED => String::new(),
            Some(said) => format!(": {}", self.quote(said)),
            None => String::new(),
        };
        let words = error.map(verdict::words).unwrap_or_default();
        let code = status.as_u16();
        if code == 429 {
            plea::note();
        }
        let verdict = verdict::of_status(code, &words);
        let message = match (code, verdict) {
            (401, _) => "the model's provider does not accept the configured key (HTTP 401)".to_owned(),
            (300..=399, _) => {
                format!("the model's provider redirects (HTTP {code}); api_url must name the final address")
            }
            (429, Verdict::Denied) => {
                format!("the quota at the model's provider is spent (HTTP 429){detail}")
            }
            (429, _) => format!("the model's provider is limiting requests (HTTP 429){detail}"),
            (_, Verdict::ContextTooLong) => {
                format!("the request is too long for the model (HTTP {code}){detail}")
            }
            (_, Verdict::Unavailable) => {
                format!("the model's provider is in trouble (HTTP {code}){detail}")
            }
            _ => format!("the model's provider refused the request (HTTP {code}){detail}"),
        };
        failed(verdict, message, retry_after_ms)
    }

    /// An error object in an answer that began with 200.
    pub(crate) fn error_object(&self, error: &Value) -> ModelError {
        let error = inner(error);
        if is_plea(error) {
            plea::note();
        }
        let said = verdict::said(error).unwrap_or("no reason given");
        let message = format!("the model's provider reports an error: {}", self.quote(said));
        failed(verdict::of_error(error, &verdict::words(error)), message, None)
    }
}

fn failed(verdict: Verdict, message: String, retry_after_ms: Option<u64>) -> ModelError {
    match verdict {
        Verdict::Refused => ModelError::Refused(message),
        Verdict::Denied => ModelError::Denied(message),
        Verdict::ContextTooLong => ModelError::ContextTooLong(message),
        Verdict::Unavailable => ModelError::Unavailable { message, retry_after_ms },
    }
}

/// The error object of a body: some wrap it in `error`, some in a list.
fn inner(body: &Value) -> &Value {
    let body = body.get(0).unwrap_or(body);
    body.get("error").filter(|error| !json::is_blank(error)).unwrap_or(body)
}

/// All that the body of a refusal says, in small letters; nothing when it is no JSON.
pub(crate) fn words_of(body: &str) -> String {
    json::parse(body).map(|parsed| verdict::words(&parsed.value)).unwrap_or_default()
}

/// Another try may help.
pub(crate) fn unavailable(message: impl Into<String>) -> ModelError {
    ModelError::Unavailable { message: message.into(), retry_after_ms: None }
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn teller() -> Teller {
        let endpoint =
            Endpoint::parse("https://api.secret.test/v1", super::super::endpoint::CHAT).expect("a URL");
        let patience = Patience { connect: Duration::from_secs(10), idle: Duration::from_secs(120) };
        let hidden = ["headersecret", "1"].map(|text| Secret::from(text.to_owned()));
        Teller::new(&endpoint, Secret::from("topsecret".to_owned()), patience).hiding(hidden.into_iter())
    }

    fn status(code: u16, body: &Value) -> ModelError {
        teller().status(StatusCode::from_u16(code).expect("a status"), Some(7), &body.to_string())
    }

    #[test]
    fn each_verdict_is_an_error_of_its_own() {
        let error = |message: &str| json!({"error": {"message": message}});
        assert!(matches!(status(400, &error("bad")), ModelError::Refused(_)));
        assert!(matches!(status(401, &error("bad")), ModelError::Denied(_)));
        assert!(matches!(status(400, &error("maximum context length")), ModelError::ContextTooLong(_)));
        let busy = status(503, &json!("busy"));
        assert!(matches!(busy, ModelError::Unavailable { retry_after_ms: Some(7), .. }), "{busy:?}");
        let spent = status(429, &json!({"error": {"code": "insufficient_quota"}}));
        assert!(matches!(spent, ModelError::Denied(_)), "{spent:?}");
    }

    #[test]
    fn a_web_page_never_ends_up_in_the_text() {
        let page = "<html><head><title>502 Bad Gateway</title></head></html>";
        let bare = teller().status(StatusCode::BAD_GATEWAY, None, page).to_string();
        assert_eq!(bare, "the model's provider is in trouble (HTTP 502)");
        let wrapped = status(502, &json!({"error": {"message": page}})).to_string();
        assert_eq!(wrapped, bare);
        let told = teller().error_object(&json!({"message": page})).to_string();
        assert!(!told.contains('<'), "{told}");
    }

    #[test]
    fn p9_the_text_names_neither_url_nor_key() {
        let said = "key topsecret or headersecret at https://api.secret.test/v1 is bad, says 1";
        for code in [401, 400, 502] {
            let told = status(code, &json!({"error": {"message": said}})).to_string();
            for secret in ["topsecret", "headersecret", "secret.test"] {
                assert!(!told.contains(secret), "{told}");
            }
        }
    }
}
