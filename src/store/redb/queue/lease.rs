//! Active leases in the writer's memory. Leases that a failed commit touched are removed and read from disk
//! again.

use crate::domain::event::StepKind;
use crate::domain::id::JobId;
use crate::domain::job::JobSpec;
use crate::ports::CancelToken;
use crate::store::redb::jobs::row::JobRow;
use std::collections::HashMap;
use std::sync::Arc;

/// All leases, by job.
pub(crate) type Leases = HashMap<JobId, LeasedJob>;

/// One lease. Cheap to clone: a transaction works on a copy, and the commit makes the copy the lease.
#[derive(Debug, Clone)]
pub(crate) struct LeasedJob {
    pub(crate) row: Arc<JobRow>,
    pub(crate) spec: Arc<JobSpec>,
    pub(crate) cancel: CancelToken,
    pub(crate) tail: LogTail,
}

/// The end of a job's log.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogTail {
    /// The newest event.
    pub(crate) seq: u64,
    /// Marks after it.
    pub(crate) sub: u32,
    /// The step that the newest delta belongs to, and the `seq` of its first.
    pub(crate) step: Option<(u32, u64)>,
    /// A delta that has its `seq` but is not written yet: the next may join it.
    pub(crate) piece: Option<PendingDelta>,
}

/// A delta that waits for adjacent deltas.
#[derive(Debug, Clone)]
pub(crate) struct PendingDelta {
    pub(crate) index: u32,
    pub(crate) kind: StepKind,
    pub(crate) offset: u64,
    pub(crate) first_seq: u64,
    pub(crate) text: String,
}
