//! The headers of a message.

use super::initialize;
use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use hyper::header::{CONTENT_TYPE, HeaderName};
use hyper::{HeaderMap, StatusCode};

pub(super) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// A message is JSON: forms of web pages, which need no permission of CORS, are not read.
pub(super) fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let line = header(headers, &CONTENT_TYPE)?.unwrap_or_default();
    let essence = line.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(ApiError::Refused {
        status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
        code: "unsupported_media_type",
        message: format!("the Content-Type must be application/json, not {}", quoted(line)),
    })
}

/// Without the header the client speaks a version that does not have it.
pub(super) fn check_version(headers: &HeaderMap) -> Result<(), ApiError> {
    match header(headers, &PROTOCOL_VERSION)? {
        Some(version) if !initialize::VERSIONS.contains(&version) => Err(ApiError::value(
            PROTOCOL_VERSION.as_str(),
            format!(
                "the MCP-Protocol-Version {} is not supported; supported: {}",
                quoted(version),
                initialize::VERSIONS.join(", ")
            ),
        )),
        _ => Ok(()),
    }
}

/// The value of a header that may be given once.
pub(super) fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(ApiError::value(name.as_str(), format!("the header '{name}' is given twice")));
    }
    let text = line.to_str();
    text.map(Some).map_err(|_| ApiError::value(name.as_str(), format!("the header '{name}' is not ASCII")))
}
