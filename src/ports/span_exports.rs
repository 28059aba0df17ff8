//! Ended jobs whose spans wait for the export to an OpenTelemetry collector.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, UserId};

/// The end of a job. A failed job that was retried has another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanExport {
    /// When it ended, unix milliseconds.
    pub finished_at_ms: u64,
    /// The job.
    pub job: JobId,
    /// Its owner.
    pub user: UserId,
}

/// The queue of ends that are to be exported. The transaction that ends a job adds its end, so none is missed
/// whatever clocks and commits do, if [`crate::ports::NodeStore`] was opened with `exports_spans`.
pub trait SpanExports: Send + Sync {
    /// Takes the oldest ends, at most `max`, for this node: it gets them again until they are removed. Other
    /// nodes get them when `lease_s` have passed, or when this node is gone.
    fn take_span_exports(&self, max: usize, lease_s: u64) -> Result<Vec<SpanExport>, StoreError>;
    /// Removes ends whose spans the collector has taken, or cannot take.
    fn remove_span_exports(&self, exports: Vec<SpanExport>) -> Ticket<()>;
    /// How many ends wait, counted up to `limit`.
    fn waiting_span_exports(&self, limit: usize) -> Result<u64, StoreError>;
}
