//! CORS headers for pages of `allowed_origins`. The response never says `*`.

use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};

/// Request headers that such a page may send.
const MAY_SEND: &str = "anthropic-beta, anthropic-dangerous-direct-browser-access, anthropic-version, authorization, content-type, \
     idempotency-key, if-match, if-none-match, last-event-id, mcp-protocol-version, mcp-session-id, nanoclaw-priority, nanoclaw-project, nanoclaw-strictness, nanoclaw-tools, \
     x-api-key, x-filename, x-request-id";
/// Response headers that it may read.
const MAY_READ: &str = "x-job-id, mcp-session-id, request-id, x-request-id, idempotency-replayed, location, retry-after, ratelimit, ratelimit-policy, content-disposition, etag";
/// How long a browser may cache a preflight, seconds.
const KEPT_S: &str = "600";

/// Lets pages of this origin read the response, with cookies.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(MAY_READ));
}

/// The response depends on the origin.
pub(crate) fn vary(headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Answers a preflight request.
pub(crate) fn preflight(headers: &mut HeaderMap, methods: &str) {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(MAY_SEND));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(KEPT_S));
}
