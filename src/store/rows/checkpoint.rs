//! Which jobs a checkpoint covers, and whether they still have the heads that it names. Pure.

use crate::domain::id::JobId;
use crate::domain::log_chain::{
    ChainLink, CheckpointJobs, LogCheckpoint, LogPublicKey, LogSigningKey, StoredCheckpoint,
};
use crate::store::rows::job::JobRow;
use std::collections::HashMap;

/// Time between two checkpoints that the store makes by itself, milliseconds.
pub(crate) const INTERVAL_MS: u64 = 24 * 3_600_000;

/// Jobs that ended so recently are left to the next checkpoint, milliseconds: transactions of other nodes
/// may not be visible yet, and clocks are set.
pub(crate) const LAG_MS: u64 = 60_000;

/// Maximum jobs of a checkpoint; a busy day has several.
pub(crate) const CHECKPOINT_JOBS: usize = 10_000;

/// Whether the store makes a checkpoint now: the newest one is a day old, or was full.
pub(crate) fn is_due(newest: Option<&LogCheckpoint>, now_ms: u64) -> bool {
    newest.is_none_or(|newest| {
        let was_full = newest.made_at_ms.saturating_sub(newest.through_ms) > LAG_MS;
        was_full || now_ms >= newest.made_at_ms.saturating_add(INTERVAL_MS)
    })
}

/// Logs that another key has signed the newest checkpoint: the key of this server is lost, and was made anew.
pub(crate) fn note_other_key(newest: Option<&LogCheckpoint>, key: &LogSigningKey) {
    if let Some(newest) = newest.filter(|newest| !newest.is_signed_by(&key.public_key())) {
        tracing::error!(
            checkpoint = newest.number,
            "another key has signed the checkpoints so far: put the old log_key back, else nothing proves them"
        );
    }
}

/// An ended job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndedHead {
    pub(crate) finished_at_ms: u64,
    pub(crate) job: JobId,
    /// `None`: its log is not chained.
    pub(crate) head: Option<ChainLink>,
}

/// The end of the window of a checkpoint of these jobs, and their heads. `ended`: by their ends, at most one
/// more than a checkpoint takes. `None`: there is nothing to cover, and no job behind it. All jobs that ended
/// in one millisecond are in one checkpoint.
pub(crate) fn window(mut ended: Vec<EndedHead>, through_ms: u64) -> Option<(u64, CheckpointJobs)> {
    let (mut through_ms, mut is_full) = (through_ms, false);
    if let Some(beyond) = ended.get(CHECKPOINT_JOBS).map(|beyond| beyond.finished_at_ms) {
        (through_ms, is_full) = (beyond.saturating_sub(1), true);
        ended.retain(|job| job.finished_at_ms < beyond);
    }
    let heads: Vec<_> = ended.iter().filter_map(|job| Some((job.job, job.head?))).collect();
    (is_full || !heads.is_empty()).then(|| (through_ms, CheckpointJobs::new(heads)))
}

/// What a verification of all checkpoints has found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckpointReport {
    /// Checkpoints that were read.
    pub checkpoints: u64,
    /// Jobs that have the head of their checkpoint.
    pub proven: u64,
    /// Jobs that were removed since, by their users or by retention.
    pub removed: u64,
    /// What was changed.
    pub faults: Vec<String>,
}

/// Verifies checkpoints in the order of their numbers.
pub(crate) struct CheckpointWalk {
    before: Option<LogCheckpoint>,
    key: Option<LogPublicKey>,
    pub(crate) report: CheckpointReport,
}

impl CheckpointWalk {
    pub(crate) fn new(key: Option<LogPublicKey>) -> Self {
        Self { before: None, key, report: CheckpointReport::default() }
    }

    /// Verifies the next checkpoint. `rows`: the jobs of it that are still there.
    pub(crate) fn take(&mut self, stored: StoredCheckpoint, rows: &HashMap<JobId, JobRow>) {
        let report = &mut self.report;
        report.checkpoints = report.checkpoints.saturating_add(1);
        let fault = stored.verify(self.before.as_ref(), self.key.as_ref()).err();
        report.faults.extend(fault.map(|fault| fault.to_string()));
        let checkpoint = stored.checkpoint;
        for (job, head) in stored.heads.iter() {
            match rows.get(&job) {
                None => report.removed = report.removed.saturating_add(1),
                // A job that has run again since has another head, which a later checkpoint names.
                Some(row) if row.retried_at_ms.is_some() && has_ended_after(row, &checkpoint) => {}
                Some(row) if row.job.log_head == Some(head) => {
                    report.proven = report.proven.saturating_add(1);
                }
                Some(_) => {
                    report
                        .faults
                        .push(format!("{job}  its head is not the one of checkpoint {}", checkpoint.number));
                }
            }
        }
        self.before = Some(checkpoint);
    }
}

/// Whether the job has not ended, or after the checkpoint.
fn has_ended_after(row: &JobRow, checkpoint: &LogCheckpoint) -> bool {
    row.job.finished_at_ms.is_none_or(|ended| ended > checkpoint.through_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(count: u64) -> Vec<EndedHead> {
        let head = |n| Some(ChainLink::start(JobId::from_bits(n)));
        let job = |n: u64| EndedHead {
            finished_at_ms: n / 2,
            job: JobId::from_bits(n.into()),
            head: head(n.into()),
        };
        (0..count).map(job).collect()
    }

    #[test]
    fn a_checkpoint_covers_all_jobs_that_ended_or_those_before_a_moment() {
        let (through_ms, heads) = window(ended(5), 100).unwrap();
        assert_eq!((through_ms, heads.iter().count()), (100, 5));
        let (through_ms, heads) = window(ended(CHECKPOINT_JOBS as u64 + 1), 9_000).unwrap();
        assert_eq!((through_ms, heads.iter().count()), (4_999, CHECKPOINT_JOBS));
    }

    #[test]
    fn a_checkpoint_of_nothing_is_not_made() {
        assert_eq!(window(Vec::new(), 100), None);
        let unchained = EndedHead { head: None, ..ended(1)[0] };
        assert_eq!(window(vec![unchained], 100), None);
        let many = ended(CHECKPOINT_JOBS as u64 + 1).into_iter().map(|job| EndedHead { head: None, ..job });
        assert!(window(many.collect(), 9_000).is_some(), "others may follow");
    }
}
