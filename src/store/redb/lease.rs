//! What the writer knows of the jobs that workers hold. Owns the leases' memory; refuses to be the truth: it is built
//! by claims, and whatever a failed commit touched is forgotten and read from disk again.

use super::row::Row;
use crate::domain::event::StepKind;
use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::ports::CancelToken;
use std::collections::HashMap;
use std::sync::Arc;

/// All leases, by job.
pub(super) type Leases = HashMap<JobId, Held>;

/// One lease. Cheap to clone: a transaction works on a copy, and the commit makes the copy the lease.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) row: Arc<Row>,
    pub(super) spec: Arc<JobSpec>,
    pub(super) stop: CancelToken,
    pub(super) tail: Tail,
}

/// Where a job's log ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail {
    /// The newest event.
    pub(super) seq: u64,
    /// Marks after it.
    pub(super) sub: u32,
    /// The step that the newest delta belongs to, and the `seq` of its first.
    pub(super) step: Option<(u32, u64)>,
    /// A delta that has its `seq` but is not written yet: the next may join it.
    pub(super) piece: Option<Piece>,
}

/// A delta that waits for its neighbours.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) index: u32,
    pub(super) kind: StepKind,
    pub(super) offset: u64,
    pub(super) first_seq: u64,
    pub(super) text: String,
}
