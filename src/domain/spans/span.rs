//! A span, before it is encoded.

use super::attributes::SpanAttributes;
use crate::domain::trace_ids::{SpanId, TraceId};

/// Whether a span is work of this process, or a call to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of this process.
    Internal,
    /// A call to another process.
    Client,
}

/// A span.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Its trace.
    pub trace: TraceId,
    /// Its id within the trace.
    pub id: SpanId,
    /// The span above; of a root, that of the client, if it has said so.
    pub parent: Option<SpanId>,
    /// A span of another trace that has caused it.
    pub link: Option<(TraceId, SpanId)>,
    /// `{operation} {subject}`.
    pub name: String,
    /// Kind.
    pub kind: SpanKind,
    /// Unix milliseconds.
    pub started_at_ms: u64,
    /// Unix milliseconds; not before the start.
    pub ended_at_ms: u64,
    /// Attributes, the ones of failures included.
    pub attributes: SpanAttributes,
    /// The message of a failure; empty without `include_content`, because it may quote a prompt.
    pub error: Option<String>,
}
