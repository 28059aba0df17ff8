//! Why a request is not answered as asked. Owns status, code and wording of every refusal; refuses details that only
//! the log should hold (P9).

use super::reply::{self, Reply};
use crate::domain::job::JobStatus;
use crate::ports::StoreError;
use hyper::header::{self, HeaderValue};
use hyper::{Method, StatusCode};
use serde::Serialize;

/// How long a client should wait before it tries a busy server again, seconds.
const RETRY_AFTER_S: &str = "1";

/// One variant per refused act; the text is for the client and says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The request says something that it may not say.
    #[error("{message}")]
    Invalid {
        /// What, and what would be right.
        message: String,
        /// Where in the request.
        param: Option<String>,
        /// For programs.
        code: &'static str,
    },
    /// The job names a model that is not configured.
    #[error("model {name} is not configured; configured models: {known}")]
    ModelNotFound {
        /// As the client wrote it, quoted.
        name: String,
        /// All that there are.
        known: String,
    },
    /// No such thing, or not this user's (P7).
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The thing exists, the method does not.
    #[error("{method} is not possible here; allowed: {allow}")]
    Method {
        /// As the client sent it.
        method: Method,
        /// What would be right.
        allow: &'static str,
    },
    /// The answer of a job that has not ended.
    #[error("the job is {}; its output exists once it has ended (GET the job with ?wait=SECONDS)", .0.as_str())]
    NotFinished(JobStatus),
    /// Deleting a job that has not ended.
    #[error("the job is {}; only an ended job can be deleted (cancel it first)", .0.as_str())]
    NotEnded(JobStatus),
    /// Another try of a job that has not failed.
    #[error("the job is {}; only a failed job can be retried", .0.as_str())]
    NotFailed(JobStatus),
    /// The answer of a job that ended without one.
    #[error("the job has no output: it ended as {}: {message}", .status.as_str())]
    NoOutput {
        /// How it ended.
        status: JobStatus,
        /// Why.
        message: String,
    },
    /// A delivery that has arrived.
    #[error("the webhook was delivered; there is nothing to try again")]
    Delivered,
    /// More body than allowed.
    #[error("the request body is larger than limits.body_bytes = {0} bytes")]
    BodyTooLarge(usize),
    /// More of a batch than allowed.
    #[error("the batch is larger than limits.batch_bytes = {0} bytes")]
    BatchTooLarge(u64),
    /// More input than allowed.
    #[error("input and system_prompt together are larger than limits.input_bytes = {0} bytes")]
    InputTooLarge(usize),
    /// The body did not arrive in time.
    #[error("the request body did not arrive within limits.body_timeout_s = {0} seconds")]
    BodyTimeout(u64),
    /// Too many bodies at once.
    #[error("request bodies under way fill limits.bodies_bytes = {0} bytes, try again in a moment")]
    BodiesFull(usize),
    /// The request line is too long.
    #[error("the request target is longer than {0} bytes")]
    TargetTooLong(usize),
    /// Header lines beyond a bound.
    #[error("the request's headers pass {0}")]
    HeadersTooLarge(String),
    /// A compressed body.
    #[error("the Content-Encoding {0} is not supported; send the body as it is")]
    Encoding(String),
    /// A Host that nobody allowed (DNS rebinding).
    #[error("host {0} is not allowed; if it is yours, add it to allowed_hosts in the configuration")]
    Host(String),
    /// A web page that nobody allowed.
    #[error("origin {0} is not allowed; if it is yours, add it to allowed_origins in the configuration")]
    Origin(String),
    /// A backup is being made, or fetched.
    #[error("another backup is under way; there is one at a time, try again when it is done")]
    BackupRunning,
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A fault of this server.
    #[error("the server failed to answer; its log has details")]
    Internal,
}

impl Error {
    /// A bad value of a field, header or parameter.
    pub(crate) fn value(param: &str, message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), param: Some(param.to_owned()), code: "invalid_value" }
    }

    /// A request that is malformed as a whole.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), param: None, code: "invalid_request" }
    }

    /// The same of a line of a batch, which makes it wrong as a whole.
    pub(crate) fn at_line(self, number: u64) -> Self {
        let message = format!("line {number}: {}", self.message());
        Self::Invalid { message, param: Some(format!("line {number}")), code: self.code() }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } | Self::ModelNotFound { .. } => StatusCode::BAD_REQUEST,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotFinished(_)
            | Self::NotFailed(_)
            | Self::NotEnded(_)
            | Self::NoOutput { .. }
            | Self::BackupRunning
            | Self::Delivered
            | Self::Store(StoreError::WrongState { .. } | StoreError::LogCut) => StatusCode::CONFLICT,
            Self::Store(StoreError::KeyReused) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Store(StoreError::KeySpent) => StatusCode::GONE,
            Self::BodyTooLarge(_) | Self::BatchTooLarge(_) | Self::InputTooLarge(_) => {
                StatusCode::PAYLOAD_TOO_LARGE
            }
            Self::BodyTimeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::TargetTooLong(_) => StatusCode::URI_TOO_LONG,
            Self::HeadersTooLarge(_) => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Encoding(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host(_) | Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::Store(StoreError::QueueFull { .. } | StoreError::SchedulesFull { .. }) => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Self::BodiesFull(_) | Self::Store(StoreError::Busy | StoreError::Closed) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Store(StoreError::Full | StoreError::LowDisk { .. }) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Store(_) | Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn code(&self) -> &'static str {
        match self {
            Self::Invalid { code, .. } => code,
            Self::ModelNotFound { .. } => "model_not_found",
            Self::NotFound(_) => "not_found",
            Self::Method { .. } => "method_not_allowed",
            Self::NotFinished(_) => "job_not_finished",
            Self::NotFailed(_) => "job_not_failed",
            Self::NotEnded(_) => "job_not_ended",
            Self::NoOutput { .. } => "no_output",
            Self::Delivered => "already_delivered",
            Self::Store(StoreError::KeyReused) => "idempotency_key_reused",
            Self::Store(StoreError::KeySpent) => "idempotency_key_spent",
            Self::Store(StoreError::WrongState { .. }) => "wrong_state",
            Self::Store(StoreError::LogCut) => "log_cut",
            Self::BackupRunning => "backup_running",
            Self::BodyTooLarge(_) => "body_too_large",
            Self::BatchTooLarge(_) => "batch_too_large",
            Self::InputTooLarge(_) => "input_too_large",
            Self::BodyTimeout(_) => "body_timeout",
            Self::TargetTooLong(_) => "target_too_long",
            Self::HeadersTooLarge(_) => "headers_too_large",
            Self::Encoding(_) => "unsupported_encoding",
            Self::Host(_) => "host_not_allowed",
            Self::Origin(_) => "origin_not_allowed",
            Self::Store(StoreError::QueueFull { .. }) => "queue_full",
            Self::Store(StoreError::SchedulesFull { .. }) => "schedules_full",
            Self::BodiesFull(_) | Self::Store(StoreError::Busy) => "busy",
            Self::Store(StoreError::Closed) => "shutting_down",
            Self::Store(StoreError::Full | StoreError::LowDisk { .. }) => "disk_full",
            Self::Store(_) | Self::Internal => "internal",
        }
    }

    fn param(&self) -> Option<&str> {
        match self {
            Self::Invalid { param, .. } => param.as_deref(),
            Self::ModelNotFound { .. } => Some("model"),
            Self::InputTooLarge(_) => Some("input"),
            Self::Store(StoreError::KeyReused | StoreError::KeySpent) => Some("Idempotency-Key"),
            _ => None,
        }
    }

    /// What the client may read: a store's own words can name paths and offsets, so they stay in the log.
    fn message(&self) -> String {
        match self {
            Self::Store(StoreError::Io(_) | StoreError::Corrupt(_) | StoreError::Fenced { .. }) => {
                Self::Internal.to_string()
            }
            other => other.to_string(),
        }
    }

    /// The answer that says it.
    pub(crate) fn into_reply(self) -> Reply {
        let status = self.status();
        if status.is_server_error() {
            tracing::warn!(%status, error = %self, "request failed");
        }
        let kind = match status {
            StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let detail = Detail { message: self.message(), kind, param: self.param(), code: self.code() };
        let mut reply = reply::json(status, &Envelope { error: detail });
        let headers = reply.headers_mut();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_S));
        }
        if let Self::Method { allow, .. } = self {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        reply
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Detail<'a>,
}

#[derive(Serialize)]
struct Detail<'a> {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_stores_own_words_stay_in_the_log() {
        let error = Error::Store(StoreError::Io("cannot write '/secret/place'".to_owned()));
        assert!(!error.message().contains("secret"));
        assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_full_disk_is_507_and_a_full_channel_503_with_retry_after() {
        let full = Error::Store(StoreError::Full);
        assert_eq!(full.status(), StatusCode::INSUFFICIENT_STORAGE);
        let busy = Error::Store(StoreError::Busy).into_reply();
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(busy.headers().contains_key(header::RETRY_AFTER));
    }
}
