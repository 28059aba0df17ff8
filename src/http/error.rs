//! Errors of requests: status, code and text for clients. Details that only the log may hold stay out of
//! the text (P9).

use crate::domain::job::JobStatus;
use crate::ports::{FileError, StoreError};
use hyper::{Method, StatusCode};

/// `Retry-After` of a busy server, seconds.
const RETRY_AFTER_S: u64 = 1;

/// Each text says what happened and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// A bad value or field.
    #[error("{message}")]
    Invalid {
        message: String,
        /// The name or path of the field.
        param: Option<String>,
        /// The machine-readable code.
        code: &'static str,
    },
    /// The job names a model that is not configured.
    #[error("model {name} is not configured; configured models: {known}")]
    ModelNotFound { name: String, known: String },
    /// Does not exist, or belongs to another user (P7).
    #[error("there is no such {0}")]
    NotFound(&'static str),
    /// The path exists, the method does not.
    #[error("{method} is not possible here; allowed: {allow}")]
    Method { method: Method, allow: String },
    /// Output of an unfinished job.
    #[error("the job is {}; its output exists once it has ended (GET the job with ?wait=SECONDS)", .0.as_str())]
    NotFinished(JobStatus),
    /// Deletion of an unfinished job.
    #[error("the job is {}; only an ended job can be deleted (cancel it first)", .0.as_str())]
    NotEnded(JobStatus),
    /// Retry of a job that has not failed.
    #[error("the job is {}; only a failed job can be retried", .0.as_str())]
    NotFailed(JobStatus),
    /// Decision about a job that does not wait for approval.
    #[error("the job is {}; only a job that is waiting for approval can be approved or denied", .0.as_str())]
    NotWaiting(JobStatus),
    /// Output of a job that ended without one.
    #[error("the job has no output: it ended as {}: {message}", .status.as_str())]
    NoOutput { status: JobStatus, message: String },
    /// Retry of a delivered webhook.
    #[error("the webhook was delivered; there is nothing to try again")]
    Delivered,
    /// Body too large.
    #[error("the request body is larger than limits.body_bytes = {0} bytes")]
    BodyTooLarge(usize),
    /// A message of a WebSocket that is too large.
    #[error("the message is larger than limits.body_bytes = {0} bytes")]
    MessageTooLarge(usize),
    /// Batch too large.
    #[error("the batch is larger than limits.batch_bytes = {0} bytes")]
    BatchTooLarge(u64),
    /// Input too large.
    #[error("input and system_prompt together are larger than limits.input_bytes = {0} bytes")]
    InputTooLarge(usize),
    /// The body did not arrive in time.
    #[error("the request body did not arrive within limits.body_timeout_s = {0} seconds")]
    BodyTimeout(u64),
    /// The body arrives too slowly while memory is scarce.
    #[error(
        "the request body arrives too slowly: while bodies under way fill half of limits.bodies_bytes, {bytes} bytes \
         have to arrive in {seconds} seconds; send it faster, or try again later"
    )]
    BodySlow { bytes: usize, seconds: u64 },
    /// Too many bodies at once.
    #[error("request bodies under way fill limits.bodies_bytes = {0} bytes, try again in a moment")]
    BodiesFull(usize),
    /// Too many large answers at once.
    #[error(
        "answers that are read at this moment fill limits.answers_bytes = {0} bytes; try again in a moment, or read a large \
         one as events of its job"
    )]
    AnswersFull(usize),
    /// The request line is too long.
    #[error("the request target is longer than {0} bytes")]
    TargetTooLong(usize),
    /// Header lines beyond a bound.
    #[error("the request's headers pass {0}")]
    HeadersTooLarge(String),
    /// A compressed body.
    #[error("the Content-Encoding {0} is not supported; send the body as it is")]
    Encoding(String),
    /// A Host that is not allowed (DNS rebinding).
    #[error("host {0} is not allowed; if it is yours, add it to allowed_hosts in the configuration")]
    Host(String),
    /// An Origin that is not allowed, with advice.
    #[error("{0}")]
    Origin(String),
    /// Another backup is being made or sent.
    #[error("another backup is under way; there is one at a time, try again when it is done")]
    BackupRunning,
    /// No valid credential.
    #[error("{0}")]
    Unauthorized(&'static str),
    /// The caller lacks the role or scope.
    #[error("{0}")]
    Forbidden(&'static str),
    /// Conflicts with the current state.
    #[error("{0}")]
    Conflict(String),
    /// Rate limit or quota.
    #[error("{message}")]
    TooMany {
        message: String,
        /// Seconds.
        retry_after_s: u64,
    },
    /// The client has its share of the connections. This one closes.
    #[error(
        "the requests and event streams under way from {whose} fill a share of limits.connections = {most}; end some \
         of them, and try again"
    )]
    ConnectionShare { whose: &'static str, most: usize },
    /// Upload too large.
    #[error("{0}")]
    UploadTooLarge(String),
    /// File of a project.
    #[error(transparent)]
    File(#[from] FileError),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A port of the store refused the request.
    #[error("{message}")]
    Refused { status: StatusCode, code: &'static str, message: String },
    /// Fault of this server.
    #[error("the server failed to answer; its log has details")]
    Internal,
}

impl ApiError {
    /// A bad value of a field, header or parameter.
    pub(crate) fn value(param: &str, message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), param: Some(param.to_owned()), code: "invalid_value" }
    }

    /// A request that is malformed as a whole.
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), param: None, code: "invalid_request" }
    }

    /// The same error for a line of a batch.
    pub(crate) fn at_line(self, number: u64) -> Self {
        let message = format!("line {number}: {}", self.message());
        Self::Invalid { message, param: Some(format!("line {number}")), code: self.code() }
    }

    /// Status and machine-readable code.
    pub(crate) fn class(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Invalid { code, .. } => (StatusCode::BAD_REQUEST, code),
            Self::ModelNotFound { .. } => (StatusCode::BAD_REQUEST, "model_not_found"),
            Self::Unauthorized(_) => (StatusCode::UNAUTHORIZED, "unauthorized"),
            Self::Forbidden(_) => (StatusCode::FORBIDDEN, "forbidden"),
            Self::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
            Self::TooMany { .. } | Self::ConnectionShare { .. } => {
                (StatusCode::TOO_MANY_REQUESTS, "rate_limited")
            }
            Self::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
            Self::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed"),
            Self::NotFinished(_) => (StatusCode::CONFLICT, "job_not_finished"),
            Self::NotFailed(_) => (StatusCode::CONFLICT, "job_not_failed"),
            Self::NotWaiting(_) => (StatusCode::CONFLICT, "job_not_waiting"),
            Self::NotEnded(_) => (StatusCode::CONFLICT, "job_not_ended"),
            Self::NoOutput { .. } => (StatusCode::CONFLICT, "no_output"),
            Self::Delivered => (StatusCode::CONFLICT, "already_delivered"),
            Self::BackupRunning => (StatusCode::CONFLICT, "backup_running"),
            Self::BodyTooLarge(_) | Self::MessageTooLarge(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "body_too_large")
            }
            Self::BatchTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "batch_too_large"),
            Self::InputTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "input_too_large"),
            Self::UploadTooLarge(_) => (StatusCode::PAYLOAD_TOO_LARGE, "upload_too_large"),
            Self::BodyTimeout(_) | Self::BodySlow { .. } => (StatusCode::REQUEST_TIMEOUT, "body_timeout"),
            Self::BodiesFull(_) | Self::AnswersFull(_) => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            Self::TargetTooLong(_) => (StatusCode::URI_TOO_LONG, "target_too_long"),
            Self::HeadersTooLarge(_) => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "headers_too_large"),
            Self::Encoding(_) => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_encoding"),
            Self::Host(_) => (StatusCode::FORBIDDEN, "host_not_allowed"),
            Self::Origin(_) => (StatusCode::FORBIDDEN, "origin_not_allowed"),
            Self::File(error) => file_class(error),
            Self::Store(error) => store_class(error),
            Self::Refused { status, code, .. } => (*status, code),
            Self::Internal => INTERNAL,
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        self.class().1
    }

    pub(crate) fn param(&self) -> Option<&str> {
        match self {
            Self::Invalid { param, .. } => param.as_deref(),
            Self::ModelNotFound { .. } | Self::Refused { code: "model_not_found", .. } => Some("model"),
            Self::InputTooLarge(_) => Some("input"),
            Self::Refused { code: "not_pending", .. } => Some("calls"),
            Self::Refused { code: "context_length_exceeded", .. } => Some("messages"),
            Self::Refused { code: "idempotency_key_reused" | "idempotency_key_spent", .. } => {
                Some("Idempotency-Key")
            }
            _ => None,
        }
    }

    /// The text for the client. Messages of the store can hold paths and offsets, so they stay in the log.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Store(StoreError::Corrupt(_)) => DAMAGED_DATA.to_owned(),
            Self::Store(error) if error.is_internal() => Self::Internal.to_string(),
            Self::File(FileError::Io(_)) => Self::Internal.to_string(),
            other => other.to_string(),
        }
    }

    /// The short text that the front end expects for a 404.
    pub(crate) fn short(&self) -> Option<String> {
        match self {
            Self::NotFound(what) => Some(format!("{what} not found")),
            _ => None,
        }
    }

    /// The fault of this server, for the log only.
    pub(crate) fn fault(&self) -> Option<String> {
        self.class().0.is_server_error().then(|| self.to_string())
    }

    pub(crate) fn retry_after_s(&self) -> u64 {
        match self {
            Self::TooMany { retry_after_s, .. } => *retry_after_s,
            _ => RETRY_AFTER_S,
        }
    }
}

/// The text for a stored record that cannot be read.
pub(crate) const DAMAGED_DATA: &str = "a stored record that this request needs is damaged; its operator can stop the \
     server, run 'nanoclaw check' and restore a backup (the server's log names the record)";

/// The node does not see the files that the nodes share; another node may.
const FILES_UNAVAILABLE: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "files_unavailable");

const INTERNAL: (StatusCode, &str) = (StatusCode::INTERNAL_SERVER_ERROR, "internal");

fn store_class(error: &StoreError) -> (StatusCode, &'static str) {
    match error {
        StoreError::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        StoreError::Recovering => (StatusCode::SERVICE_UNAVAILABLE, "recovering"),
        StoreError::Unreachable => (StatusCode::SERVICE_UNAVAILABLE, "database_unreachable"),
        StoreError::FilesUnavailable(_) => FILES_UNAVAILABLE,
        StoreError::Misplaced => (StatusCode::SERVICE_UNAVAILABLE, "store_moved"),
        StoreError::Outdated(_) => (StatusCode::SERVICE_UNAVAILABLE, "outdated_node"),
        StoreError::Closed => (StatusCode::SERVICE_UNAVAILABLE, "shutting_down"),
        StoreError::Full | StoreError::LowDisk { .. } => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        StoreError::Corrupt(_) => (StatusCode::INTERNAL_SERVER_ERROR, "damaged_data"),
        StoreError::Io(_) => INTERNAL,
    }
}

fn file_class(error: &FileError) -> (StatusCode, &'static str) {
    match error {
        FileError::Outside(_) | FileError::OutsideDirectory { .. } => {
            (StatusCode::FORBIDDEN, "outside_project")
        }
        FileError::NotFound(_) => (StatusCode::NOT_FOUND, "not_found"),
        FileError::BadPath(_) | FileError::WrongKind(_) | FileError::NotText(_) | FileError::Exists(_) => {
            (StatusCode::BAD_REQUEST, "invalid_path")
        }
        FileError::Changed(_) => (StatusCode::PRECONDITION_FAILED, "precondition_failed"),
        // The front end expects a 400 for a file that is too large.
        FileError::TooLarge(_) => (StatusCode::BAD_REQUEST, "file_too_large"),
        FileError::Quota(_) => (StatusCode::PAYLOAD_TOO_LARGE, "quota_exceeded"),
        FileError::Unavailable(_) => FILES_UNAVAILABLE,
        FileError::Full => (StatusCode::INSUFFICIENT_STORAGE, "disk_full"),
        FileError::Io(_) => INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::response::error::ErrorFormat;
    use hyper::header;

    #[test]
    fn p9_store_error_texts_are_not_sent_to_clients() {
        let error = ApiError::Store(StoreError::Io("cannot write '/secret/place'".to_owned()));
        assert!(!error.message().contains("secret"));
        assert_eq!(error.class().0, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn a_full_disk_is_507_and_a_full_channel_503_with_retry_after() {
        let full = ApiError::Store(StoreError::Full);
        assert_eq!(full.class().0, StatusCode::INSUFFICIENT_STORAGE);
        let busy = ApiError::Store(StoreError::Busy).into_response(ErrorFormat::Plain);
        assert_eq!(busy.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(busy.headers().contains_key(header::RETRY_AFTER));
    }
}
