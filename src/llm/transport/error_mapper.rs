//! Maps statuses, error objects and broken connections to `ModelError`. Its texts name neither URLs nor keys
//! (P9).

use super::endpoint::Endpoint;
use super::error_kind::{self, ProviderErrorKind};
use super::redact::redact;
pub(crate) use super::retry_after::wait_ms;
use crate::domain::secret::Secret;
use crate::llm::json;
use crate::net::{CallEnd, CallTimeouts};
use crate::ports::ModelError;
use serde_json::Value;
use std::io;
use ureq::http::StatusCode;

/// Shorter header values are ordinary words and no secrets.
const MIN_SECRET_BYTES: usize = 8;

/// A request that failed.
#[derive(Debug)]
pub(crate) struct ProviderFailure {
    /// What it means.
    pub(crate) error: ModelError,
    /// The HTTP status, if there was a response.
    pub(crate) status: Option<StatusCode>,
    /// The text of the response in lower case, for classification only.
    pub(crate) words: String,
}

impl From<ModelError> for ProviderFailure {
    fn from(error: ModelError) -> Self {
        Self { error, status: None, words: String::new() }
    }
}

/// Maps the failures of one provider. Holds the secrets that no message may quote.
#[derive(Debug, Clone)]
pub(crate) struct ErrorMapper {
    secrets: Vec<Secret>,
    host: String,
    timeouts: CallTimeouts,
}

impl ErrorMapper {
    /// A mapper for calls to this endpoint with this key.
    pub(crate) fn new(endpoint: &Endpoint, key: Secret, timeouts: CallTimeouts) -> Self {
        // The name of a loopback host is an ordinary word and no secret.
        let host = if endpoint.is_loopback() { String::new() } else { endpoint.host().to_owned() };
        Self { secrets: vec![key], host, timeouts }
    }

    /// The same mapper, which hides these secrets too.
    #[must_use]
    pub(crate) fn hiding(mut self, secrets: impl Iterator<Item = Secret>) -> Self {
        self.secrets.extend(secrets.filter(|secret| secret.reveal().len() >= MIN_SECRET_BYTES));
        self
    }

    fn quote(&self, message: &str) -> String {
        redact(message, &self.secrets, &self.host)
    }

    /// The error of a call that failed before its response head was complete.
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

    /// The error of an answer that broke off.
    pub(crate) fn read(&self, error: &io::Error) -> ModelError {
        match CallEnd::of(error) {
            Some(CallEnd::Cancelled) => ModelError::Stopped,
            Some(CallEnd::ConnectTimeout) => unavailable(format!(
                "no connection to the model's provider within {} s",
                self.timeouts.connect.as_secs()
            )),
            Some(CallEnd::IdleTimeout) => {
                unavailable(format!("the model's provider was silent for {} s", self.timeouts.idle.as_secs()))
            }
            Some(CallEnd::Stalled) => unavailable(format!(
                "the model's provider sent nothing of an answer for {} s",
                self.timeouts.stall.as_secs()
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

    /// The error of a response whose status is not 2xx.
    pub(crate) fn status(&self, status: StatusCode, retry_after_ms: Option<u64>, body: &str) -> ModelError {
        let parsed = json::parse(body).map(|parsed| parsed.value);
        let error = parsed.as_ref().map(inner);
        let detail = match error.and_then(error_kind::message_of) {
            // The provider quotes the key that it refuses.
            _ if status == StatusCode::UNAUTHORIZED => String::new(),
            Some(message) => format!(": {}", self.quote(message)),
            None => String::new(),
        };
        let words = error.map(error_kind::words).unwrap_or_default();
        let code = status.as_u16();
        let kind = error_kind::of_status(code, &words);
        let message = match (code, kind) {
            (401, _) => "the model's provider does not accept the configured key (HTTP 401)".to_owned(),
            (403, ProviderErrorKind::Denied) => {
                format!(
                    "the model's provider does not permit this with the configured key (HTTP 403){detail}"
                )
            }
            (300..=399, _) => {
                format!("the model's provider redirects (HTTP {code}); api_url must name the final address")
            }
            (429, ProviderErrorKind::Denied) => {
                format!("the quota at the model's provider is spent (HTTP 429){detail}")
            }
            (429, _) => format!("the model's provider is limiting requests (HTTP 429){detail}"),
            (_, ProviderErrorKind::Filtered) => {
                format!(
                    "the content filter of the model's provider refused the request (HTTP {code}){detail}"
                )
            }
            (_, ProviderErrorKind::UnknownModel) => {
                format!("the provider does not know the model that is configured (HTTP {code}){detail}")
            }
            (_, ProviderErrorKind::ContextTooLong) => {
                format!("the request is too long for the model (HTTP {code}){detail}")
            }
            (_, ProviderErrorKind::Unavailable) => {
                format!("the model's provider is in trouble (HTTP {code}){detail}")
            }
            _ => format!("the model's provider refused the request (HTTP {code}){detail}"),
        };
        failed(kind, message, retry_after_ms)
    }

    /// The failure that an error object means in an answer with status 200.
    pub(crate) fn error_object(&self, error: &Value) -> ProviderFailure {
        let error = inner(error);
        let reason = error_kind::message_of(error).unwrap_or("no reason given");
        let message = format!("the model's provider reports an error: {}", self.quote(reason));
        failed(error_kind::of_error(error, &error_kind::words(error)), message, None).into()
    }
}

fn failed(kind: ProviderErrorKind, message: String, retry_after_ms: Option<u64>) -> ModelError {
    match kind {
        ProviderErrorKind::Refused => ModelError::Refused(message),
        ProviderErrorKind::Filtered => ModelError::Filtered(message),
        ProviderErrorKind::Denied => ModelError::Denied(message),
        ProviderErrorKind::UnknownModel => ModelError::UnknownModel(message),
        ProviderErrorKind::ContextTooLong => ModelError::ContextTooLong(message),
        ProviderErrorKind::RateLimited => ModelError::RateLimited { message, retry_after_ms },
        ProviderErrorKind::Unavailable => ModelError::Unavailable { message, retry_after_ms },
    }
}

/// The error object of a body: some wrap it in `error`, some in a list.
fn inner(body: &Value) -> &Value {
    let body = body.get(0).unwrap_or(body);
    body.get("error").filter(|error| !json::is_blank(error)).unwrap_or(body)
}

/// All text of an error response in lower case; empty if it is no JSON.
pub(crate) fn words_of(body: &str) -> String {
    json::parse(body).map(|parsed| error_kind::words(&parsed.value)).unwrap_or_default()
}

/// An error after which another try may succeed.
pub(crate) fn unavailable(message: impl Into<String>) -> ModelError {
    ModelError::Unavailable { message: message.into(), retry_after_ms: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;

    fn errors() -> ErrorMapper {
        let endpoint =
            Endpoint::parse("https://api.secret.test/v1", super::super::endpoint::CHAT).expect("a URL");
        let timeout = Duration::from_secs(10);
        let timeouts = CallTimeouts { connect: timeout, dial: timeout, idle: timeout, stall: timeout };
        let hidden = ["headersecret", "1"].map(|text| Secret::from(text.to_owned()));
        ErrorMapper::new(&endpoint, Secret::from("topsecret".to_owned()), timeouts).hiding(hidden.into_iter())
    }

    fn status(code: u16, body: &Value) -> ModelError {
        errors().status(StatusCode::from_u16(code).expect("a status"), Some(7), &body.to_string())
    }

    #[test]
    fn each_kind_maps_to_its_error() {
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
    fn a_web_page_is_never_quoted() {
        let page = "<html><head><title>502 Bad Gateway</title></head></html>";
        let bare = errors().status(StatusCode::BAD_GATEWAY, None, page).to_string();
        assert_eq!(bare, "the model's provider is in trouble (HTTP 502)");
        let wrapped = status(502, &json!({"error": {"message": page}})).to_string();
        assert_eq!(wrapped, bare);
        let text = errors().error_object(&json!({"message": page})).error.to_string();
        assert!(!text.contains('<'), "{text}");
    }

    #[test]
    fn p9_error_texts_contain_neither_url_nor_key() {
        let message = "key topsecret or headersecret at https://api.secret.test/v1 is bad, says 1";
        for code in [401, 400, 502] {
            let text = status(code, &json!({"error": {"message": message}})).to_string();
            for secret in ["topsecret", "headersecret", "secret.test"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
    }
}
