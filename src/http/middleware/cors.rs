//! Web pages of other origins that may call: those in `allowed_origins`. Owns the headers by which a browser lets them; refuses
//! to decide who may (`guard` does), and ever to say `*`.

use hyper::HeaderMap;
use hyper::header::{self, HeaderValue};

/// What such a page may send beyond what every page may.
const MAY_SEND: &str =
    "authorization, content-type, idempotency-key, last-event-id, x-filename, x-request-id";
/// What it may read beyond what every page may.
const MAY_READ: &str = "x-job-id, x-request-id, idempotency-replayed, location, retry-after, ratelimit, ratelimit-policy, content-disposition";
/// How long a browser keeps the answer to a preflight, seconds.
const KEPT_S: &str = "600";

/// Lets the page of this origin read the answer, and the browser send cookies.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(MAY_READ));
}

/// Tells caches that the answer depends on who asks.
pub(crate) fn vary(headers: &mut HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}

/// Answers the browser's question before a request: these methods, in `Allow`'s words.
pub(crate) fn preflight(headers: &mut HeaderMap, methods: &str) {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(MAY_SEND));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(KEPT_S));
}
