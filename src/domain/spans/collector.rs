//! Collects the spans below the root of one job, and gives times to those that have none in the log.

use super::attributes::SpanAttributes;
use super::span::{SpanKind, TraceSpan};
use crate::domain::call_times::CallTimes;
use crate::domain::trace_ids::{SpanId, TraceId};
use std::collections::BTreeSet;

/// Spans of one job below the root; the rest is counted.
const MAX_SPANS: usize = 2_000;

/// A span without its times.
pub(super) struct SpanDraft {
    pub(super) id: SpanId,
    pub(super) parent: SpanId,
    pub(super) name: String,
    pub(super) kind: SpanKind,
    pub(super) attributes: SpanAttributes,
    pub(super) error: Option<String>,
}

/// The spans so far.
pub(super) struct SpanCollector {
    trace: TraceId,
    spans: Vec<TraceSpan>,
    dropped: u64,
    /// The newest time that a record has.
    known_ms: u64,
    /// Spans that end at the next time that a record has.
    unended: Vec<usize>,
}

impl SpanCollector {
    /// Of a job that started at this time.
    pub(super) fn new(trace: TraceId, started_at_ms: u64) -> Self {
        Self { trace, spans: Vec::new(), dropped: 0, known_ms: started_at_ms, unended: Vec::new() }
    }

    /// Spans that were left out.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Adds a span with times of the log.
    pub(super) fn add(&mut self, draft: SpanDraft, times: CallTimes) {
        self.end_estimated(times.started_at_ms);
        self.insert(draft, times);
        self.known_ms = self.known_ms.max(times.ended_at_ms);
    }

    /// Adds a span from the last known time to the next one, or for as long as it is known to have taken.
    pub(super) fn add_estimated(&mut self, mut draft: SpanDraft, took_ms: Option<u64>) {
        draft.attributes.flag("nanoclaw.times.estimated");
        if took_ms.is_none() && self.spans.len() < MAX_SPANS {
            self.unended.push(self.spans.len());
        }
        let started_at_ms = self.known_ms;
        let ended_at_ms = started_at_ms.saturating_add(took_ms.unwrap_or(0));
        self.insert(draft, CallTimes { started_at_ms, ended_at_ms });
    }

    fn insert(&mut self, draft: SpanDraft, times: CallTimes) {
        if self.spans.len() >= MAX_SPANS {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        let SpanDraft { id, parent, name, kind, attributes, error } = draft;
        self.spans.push(TraceSpan {
            trace: self.trace,
            id,
            parent: Some(parent),
            link: None,
            name,
            kind,
            started_at_ms: times.started_at_ms,
            ended_at_ms: times.ended_at_ms,
            attributes,
            error,
        });
    }

    fn end_estimated(&mut self, at_ms: u64) {
        for at in self.unended.drain(..) {
            if let Some(span) = self.spans.get_mut(at) {
                span.ended_at_ms = span.started_at_ms.max(at_ms);
            }
        }
    }

    /// All spans within the root, which is the first of them.
    pub(super) fn under(mut self, root: TraceSpan) -> Vec<TraceSpan> {
        let (first_ms, last_ms) = (root.started_at_ms, root.ended_at_ms);
        self.end_estimated(last_ms);
        let ids: BTreeSet<SpanId> = self.spans.iter().map(|span| span.id).collect();
        for span in &mut self.spans {
            // Clocks of several machines differ, and somebody may have set one.
            span.started_at_ms = span.started_at_ms.clamp(first_ms, last_ms);
            span.ended_at_ms = span.ended_at_ms.clamp(span.started_at_ms, last_ms);
            // The span above may be beyond the limit.
            if !span.parent.is_some_and(|parent| ids.contains(&parent)) {
                span.parent = Some(root.id);
            }
        }
        std::iter::once(root).chain(self.spans).collect()
    }
}
