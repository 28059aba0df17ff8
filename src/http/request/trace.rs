//! The span of the client that has caused a request.

use crate::domain::trace_ids::TraceParent;
use hyper::HeaderMap;

/// Reads `traceparent`. W3C Trace Context wants a malformed one to be ignored.
pub(crate) fn parent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get("traceparent")?.to_str().ok()?.trim().parse().ok()
}
