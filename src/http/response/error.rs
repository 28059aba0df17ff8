//! The wire form of an error, in the formats that clients know.

use super::{HttpResponse, json, set};
use crate::http::error::ApiError;
use crate::http::middleware::request_id::RequestId;
use hyper::{HeaderMap, StatusCode, header};
use serde::Serialize;

/// Wire formats of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat<'r> {
    /// `{"error":{"message","type","param","code"}}`.
    Plain,
    /// The same with `OpenAI`'s codes, for its routes.
    OpenAi,
    /// `{"code":<status>,"message":…}`, for `/api`.
    Coded,
    /// `{"type":"error","error":{"type","message","details":{"error_code","param"}},"request_id"}`, for
    /// `/v1/messages`, and for `/v1/models` of Anthropic's clients.
    Anthropic(&'r RequestId),
}

/// Routes that `OpenAI` has and this server's own API has not.
const OPENAI_ROUTES: [&str; 7] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/conversations",
    "/v1/embeddings",
    "/v1/files",
    "/v1/models",
    "/v1/responses",
];

/// The header that every client of Anthropic's API sends.
const ANTHROPIC_VERSION: &str = "anthropic-version";

/// Whether the client of this request expects Anthropic's shape, where a route has several.
pub(crate) fn expects_anthropic(headers: &HeaderMap) -> bool {
    headers.contains_key(ANTHROPIC_VERSION)
}

impl<'r> ErrorFormat<'r> {
    /// The format of routes at this path, for the request with these headers and this id.
    pub(crate) fn of(path: &str, headers: &HeaderMap, id: &'r RequestId) -> Self {
        let is_at = |base: &str| {
            path.strip_prefix(base).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'/', ..]))
        };
        match path {
            _ if is_at("/api") => Self::Coded,
            _ if is_at("/v1/messages") => Self::Anthropic(id),
            _ if is_at("/v1/models") && expects_anthropic(headers) => Self::Anthropic(id),
            _ if OPENAI_ROUTES.into_iter().any(is_at) => Self::OpenAi,
            _ => Self::Plain,
        }
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ApiErrorResponse {
    code: u16,
    message: String,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ErrorResponse<'a> {
    error: ErrorDetail<'a>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct ErrorDetail<'a> {
    message: String,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

impl<'a> ErrorResponse<'a> {
    /// The error in the plain format.
    pub(crate) fn of(error: &'a ApiError) -> Self {
        let (status, code) = error.class();
        Self {
            error: ErrorDetail { message: error.message(), kind: kind(status), param: error.param(), code },
        }
    }

    /// The same with `OpenAI`'s code.
    pub(crate) fn of_openai(error: &'a ApiError) -> Self {
        let mut response = Self::of(error);
        response.error.code = openai_code(response.error.code);
        response
    }
}

/// `OpenAI`'s name for a code of this server.
pub(crate) fn openai_code(code: &str) -> &str {
    match code {
        "rate_limited" => "rate_limit_exceeded",
        "unauthorized" => "invalid_api_key",
        other => other,
    }
}

fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
pub(crate) struct AnthropicErrorResponse<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    error: AnthropicErrorDetail<'a>,
    request_id: Option<&'a str>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct AnthropicErrorDetail<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
    details: AnthropicErrorCause<'a>,
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Serialize)]
struct AnthropicErrorCause<'a> {
    /// The code that other routes name `code`.
    error_code: &'a str,
    param: Option<&'a str>,
}

impl<'a> AnthropicErrorResponse<'a> {
    /// The error in Anthropic's format.
    pub(crate) fn of(error: &'a ApiError, request_id: Option<&'a RequestId>) -> Self {
        let kind = match error.class().0.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        let details = AnthropicErrorCause { error_code: error.code(), param: error.param() };
        let error = AnthropicErrorDetail { kind, message: error.message(), details };
        Self { kind: "error", error, request_id: request_id.map(RequestId::as_str) }
    }
}

impl ApiError {
    /// The response.
    pub(crate) fn into_response(self, dialect: ErrorFormat<'_>) -> HttpResponse {
        let (status, _) = self.class();
        let message = self.message();
        let mut response = match dialect {
            ErrorFormat::Plain => json(status, &ErrorResponse::of(&self)),
            ErrorFormat::OpenAi => json(status, &ErrorResponse::of_openai(&self)),
            ErrorFormat::Anthropic(id) => json(status, &AnthropicErrorResponse::of(&self, Some(id))),
            ErrorFormat::Coded => {
                let message = self.short().unwrap_or(message);
                json(status, &ApiErrorResponse { code: status.as_u16(), message })
            }
        };
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            set(&mut response, header::RETRY_AFTER, &self.retry_after_s().to_string());
        }
        match self {
            Self::Method { allow, .. } => set(&mut response, header::ALLOW, &allow),
            Self::Unauthorized(_) => set(&mut response, header::WWW_AUTHENTICATE, "Bearer"),
            Self::ConnectionShare { .. } => set(&mut response, header::CONNECTION, "close"),
            _ => {}
        }
        response
    }
}
