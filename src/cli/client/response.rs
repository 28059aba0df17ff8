//! Reads responses and separates retryable failures from final ones.

use crate::cli::error::CliError;
use serde_json::Value;
use std::io::ErrorKind;
use ureq::Body;
use ureq::http::{Response, StatusCode};

/// Longest JSON response that is read, bytes.
const MAX_RESPONSE_BYTES: u64 = 64 * 1024 * 1024;

/// Why there is no event stream.
pub(crate) enum EventStreamError {
    /// No server answers; it may come back.
    Unreachable(String),
    /// The server, or a proxy before it, is overloaded or restarting.
    Busy(String),
    /// The server refused the request.
    Refused(CliError),
}

/// Why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// No server answered, or it was busy: the same request may succeed later.
    Unavailable(String),
    /// The server refused the request, with this HTTP status and message.
    Refused(u16, String),
}

/// The error for a refused request, with advice for its status.
pub(crate) fn refusal(status: u16, message: String) -> CliError {
    let hint = match status {
        401 => "set $NANOCLAW_TOKEN (nanoclaw token new)",
        403 => "this token may not do that; another may: nanoclaw token new --scopes read,write,admin",
        404 if message.contains("such project") => "the projects that there are: nanoclaw list projects",
        404 if message.contains("such job") => "the jobs that there are: nanoclaw jobs",
        404 => "what there is of each kind: nanoclaw list KIND",
        400 if message.contains("is not configured") => {
            "name one of them, or add it under models: (nanoclaw config show)"
        }
        409 if message.contains("names the calls") => {
            "look at the calls (nanoclaw tail JOB), then add --call ID for each"
        }
        413 => "send less, or raise the limit that is named under limits: (nanoclaw config show --default)",
        429 => "wait a moment, or raise the limit (nanoclaw config show --default)",
        507 => "make room on the server's disk, or shorten retention (nanoclaw config show --default)",
        500..=599 => "the server's log says more; what works there: nanoclaw doctor",
        _ => return CliError::failed(message),
    };
    CliError::failed(message).hint(hint)
}

/// The error for a response of the wrong kind.
pub(super) fn unexpected_response(what: &str) -> CliError {
    CliError::failed(format!("the server answered with something that is {what}"))
        .hint("is it a NanoClaw server of this version? name another with --server")
}

/// The server's error message; `/v1` and `/api` have it in different places.
pub(super) fn reason(response: &Value) -> Option<&str> {
    response.pointer("/error/message").or_else(|| response.get("message")).and_then(Value::as_str)
}

/// Status and body of a response.
pub(super) fn read_text(response: Response<Body>) -> Result<(StatusCode, String), ureq::Error> {
    let status = response.status();
    let body = response.into_body().into_with_config().limit(MAX_RESPONSE_BYTES);
    Ok((status, body.read_to_string()?))
}

/// The JSON of a successful response, else whether another try may help.
pub(super) fn parse(
    response: Result<Response<Body>, ureq::Error>,
    retryable: &[u16],
) -> Result<Value, RequestError> {
    let (status, text) =
        response.and_then(read_text).map_err(|error| RequestError::Unavailable(describe(&error)))?;
    let value: Option<Value> = serde_json::from_str(&text).ok();
    let message = value.as_ref().and_then(reason).map(str::to_owned);
    match value {
        Some(value) if status.is_success() => Ok(value),
        _ if retryable.contains(&status.as_u16()) => {
            Err(RequestError::Unavailable(message.unwrap_or_else(|| format!("it answers {status}"))))
        }
        _ => {
            let not_json = || "it answered without JSON; is it a NanoClaw server?".to_owned();
            Err(RequestError::Refused(status.as_u16(), message.unwrap_or_else(not_json)))
        }
    }
}

/// Whether an open connection was closed early.
pub(super) fn is_disconnect(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Whether the server cannot have got the request.
pub(super) fn has_no_connection(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(io) => matches!(io.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused),
        ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

pub(super) fn describe(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(io) => io.to_string(),
        ureq::Error::Timeout(_) => "no response in time".to_owned(),
        other => other.to_string(),
    }
}
