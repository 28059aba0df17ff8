//! The wire form of an error, in the two formats that clients know.

use super::{HttpResponse, json, set};
use crate::http::error::ApiError;
use hyper::StatusCode;
use hyper::header;
use serde::Serialize;

/// Wire formats of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// `{"error":{"message","type","param","code"}}`.
    Plain,
    /// `{"code":<status>,"message":…}`, for `/api`.
    Coded,
}

impl ErrorFormat {
    /// The format of routes at this path.
    pub(crate) fn of(path: &str) -> Self {
        if path == "/api" || path.starts_with("/api/") { Self::Coded } else { Self::Plain }
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
}

fn kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

impl ApiError {
    /// The response.
    pub(crate) fn into_response(self, dialect: ErrorFormat) -> HttpResponse {
        let (status, _) = self.class();
        let message = self.message();
        let mut response = match dialect {
            ErrorFormat::Plain => json(status, &ErrorResponse::of(&self)),
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
            _ => {}
        }
        response
    }
}
