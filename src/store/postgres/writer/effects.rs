//! What follows a commit, once it is durable.

use crate::store::commit_metrics::CommitMetrics;
use crate::store::postgres::writer::announcement::Announcement;

/// Effects of a commit, applied once it is durable.
#[derive(Debug, Default)]
pub(crate) struct CommitEffects {
    /// What other nodes, and the readers of this one, learn.
    pub(crate) announcement: Announcement,
    /// Metrics of the group.
    pub(crate) metrics: CommitMetrics,
    /// A schedule has a new next run.
    pub(crate) has_changed_schedule: bool,
    /// Accepted jobs minus ended ones.
    pub(crate) unfinished: i64,
}
