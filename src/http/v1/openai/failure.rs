//! Failures in `OpenAI`'s status codes: of a request, and of the job behind it.

use crate::domain::event::FailureCode;
use crate::domain::id::JobId;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::error::ErrorResponse;
use crate::http::server::shutdown::ShutdownStage;
use hyper::StatusCode;

/// `Retry-After` of a provider that limits requests and names no time, milliseconds. Their windows are mostly
/// a minute.
const PROVIDER_WAIT_MS: u64 = 20_000;
/// The longest `Retry-After` of a provider that is passed on, milliseconds.
const PROVIDER_WAIT_MAX_MS: u64 = 3_600_000;

/// The error of a request whose provider limits requests.
pub(super) fn rate_limited(message: String, retry_after_ms: Option<u64>) -> ApiError {
    let wait_ms = retry_after_ms.unwrap_or(PROVIDER_WAIT_MS).min(PROVIDER_WAIT_MAX_MS);
    ApiError::TooMany { message, retry_after_s: wait_ms.div_ceil(1_000).max(1) }
}

/// The error of a job that ended without an answer. `retry_after_ms` is its provider's.
pub(crate) fn of_job(code: FailureCode, message: String, retry_after_ms: Option<u64>) -> ApiError {
    let (status, code) = match code {
        FailureCode::ContextTooLong => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
        FailureCode::MaxTotalTokens => (StatusCode::BAD_REQUEST, "max_total_tokens"),
        FailureCode::MaxCost => (StatusCode::BAD_REQUEST, "max_cost"),
        FailureCode::DependencyFailed => (StatusCode::BAD_REQUEST, "dependency_failed"),
        // Not a 409: clients repeat these by themselves.
        FailureCode::Cancelled => (StatusCode::BAD_REQUEST, "cancelled"),
        FailureCode::InvalidRequest => (StatusCode::BAD_REQUEST, "invalid_request"),
        FailureCode::ContentFilter => (StatusCode::BAD_REQUEST, "content_filter"),
        FailureCode::RateLimited => return rate_limited(message, retry_after_ms),
        FailureCode::ModelNotFound => (StatusCode::NOT_FOUND, "model_not_found"),
        FailureCode::ProviderError => (StatusCode::BAD_GATEWAY, "provider_error"),
        FailureCode::OutputTooLarge => (StatusCode::BAD_GATEWAY, "output_too_large"),
        FailureCode::Timeout => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        FailureCode::DeadlineExceeded => (StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded"),
        FailureCode::Expired => (StatusCode::GATEWAY_TIMEOUT, "expired"),
        FailureCode::Poison => (StatusCode::INTERNAL_SERVER_ERROR, "poison"),
        FailureCode::DamagedData => (StatusCode::INTERNAL_SERVER_ERROR, "damaged_data"),
        FailureCode::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    };
    ApiError::Refused { status, code, message }
}

/// The error of a request whose job goes on although nobody is answered any more.
pub(crate) fn interrupted(context: &ServerContext, job: JobId) -> ApiError {
    let cause =
        if context.shutdown.stage() >= ShutdownStage::Closing { "is stopping" } else { "was stopped" };
    ApiError::Refused {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: "shutting_down",
        message: format!("the server {cause}; the job goes on: GET /v1/jobs/{job}"),
    }
}

/// The same error, as these routes answer it: an unknown model is a 404, an unknown field is unsupported.
pub(crate) fn of_request(error: ApiError) -> ApiError {
    match error {
        ApiError::ModelNotFound { .. } => ApiError::Refused {
            status: StatusCode::NOT_FOUND,
            code: "model_not_found",
            message: error.to_string(),
        },
        ApiError::Invalid { message, param, code: "unknown_field" } => {
            ApiError::Invalid { message, param, code: UNSUPPORTED }
        }
        other => other,
    }
}

/// The code of fields that this server does not support.
pub(crate) const UNSUPPORTED: &str = "unsupported_parameter";

/// A field or value that this server does not support.
pub(crate) fn unsupported(param: &str, message: impl Into<String>) -> ApiError {
    ApiError::Invalid { message: message.into(), param: Some(param.to_owned()), code: UNSUPPORTED }
}

/// A field that must be there; `advice` says what it must hold.
pub(crate) fn missing(param: &str, advice: &str) -> ApiError {
    ApiError::Invalid {
        message: format!("'{param}' is missing: {advice}"),
        param: Some(param.to_owned()),
        code: "missing_required_parameter",
    }
}

/// What a missing `model` must hold.
pub(crate) const MODEL_ADVICE: &str = "name one of GET /v1/models";

/// The frame that ends a stream early.
pub(crate) fn frame(error: &ApiError) -> Vec<u8> {
    let mut frame = b"data: ".to_vec();
    match serde_json::to_vec(&ErrorResponse::of_openai(error)) {
        Ok(text) => frame.extend(text),
        Err(error) => tracing::error!(%error, "an error cannot be written as JSON"),
    }
    frame.extend_from_slice(b"\n\n");
    frame
}
