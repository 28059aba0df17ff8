//! Security headers of every response (P9): responses are data, and the console sets its own policy.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// A response loads and runs nothing, stands in no frame and keeps its type; pages of other sites read it
/// through CORS only.
const HEADERS: [(HeaderName, &str); 5] = [
    (hyper::header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'"),
    (hyper::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (hyper::header::X_FRAME_OPTIONS, "DENY"),
    (hyper::header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

pub(crate) fn apply(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}
