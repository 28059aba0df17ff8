//! What every answer tells browsers (P9): nothing of it is a page. Owns the list; refuses to know what is answered.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// Names and values. Answers are data: they load nothing, stand in no frame, are taken for no other type, and no other site's
/// page gets at them but through CORS (`cors`).
const PLATES: [(HeaderName, &str); 5] = [
    (hyper::header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (hyper::header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (hyper::header::X_FRAME_OPTIONS, "DENY"),
    (hyper::header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Puts it on.
pub(crate) fn apply(headers: &mut HeaderMap) {
    for (name, value) in PLATES {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The same as header lines, for answers that hyper writes by itself.
pub(crate) fn lines() -> String {
    PLATES.iter().flat_map(|(name, value)| [name.as_str(), ": ", value, "\r\n"]).collect()
}
