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

/// Jobs of a full checkpoint, or more if several ended in its last millisecond; a busy day has several.
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

/// The jobs of a checkpoint: those that ended in a window of time, and imports that ended before it.
#[derive(Debug)]
pub(crate) struct CheckpointWindow {
    pub(crate) after_ms: u64,
    /// The newest end that belongs to it.
    pub(crate) until_ms: u64,
    /// Jobs of the window that fit beside the imports.
    pub(crate) room: usize,
    imports: Vec<EndedHead>,
}

impl CheckpointWindow {
    /// The window behind a checkpoint. `imports`: at most [`CHECKPOINT_JOBS`] that have come since; this
    /// window, or a later one, has those that ended behind that checkpoint.
    pub(crate) fn new(before: Option<&LogCheckpoint>, now_ms: u64, mut imports: Vec<EndedHead>) -> Self {
        let after_ms = before.map_or(0, |before| before.through_ms);
        let room = CHECKPOINT_JOBS.saturating_sub(imports.len());
        imports.retain(|import| import.finished_at_ms <= after_ms);
        Self { after_ms, until_ms: now_ms.saturating_sub(LAG_MS), room, imports }
    }

    /// The end of what the checkpoint covers, and the heads in it. `ended`: the first jobs of the window by
    /// their ends, as many as there is room for, and all that ended together with the last of them. `None`:
    /// there is nothing to cover, and no job behind it.
    pub(crate) fn cover(self, ended: &[EndedHead]) -> Option<(u64, CheckpointJobs)> {
        let is_full = ended.len() >= self.room;
        let full_ms = ended.last().map_or(self.after_ms, |last| last.finished_at_ms);
        let through_ms = if is_full { full_ms } else { self.until_ms };
        let jobs = self.imports.iter().chain(ended);
        let heads: Vec<_> = jobs.filter_map(|job| Some((job.job, job.head?))).collect();
        (!heads.is_empty() || is_full && !ended.is_empty()).then(|| (through_ms, CheckpointJobs::new(heads)))
    }
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
    /// One of them must have signed each.
    keys: Vec<LogPublicKey>,
    pub(crate) report: CheckpointReport,
}

impl CheckpointWalk {
    pub(crate) fn new(keys: &[LogPublicKey]) -> Self {
        Self { before: None, keys: keys.to_vec(), report: CheckpointReport::default() }
    }

    /// Verifies the next checkpoint. `rows`: the jobs of it that are still there.
    pub(crate) fn take(&mut self, stored: StoredCheckpoint, rows: &HashMap<JobId, JobRow>) {
        let report = &mut self.report;
        report.checkpoints = report.checkpoints.saturating_add(1);
        let fault = stored.verify(self.before.as_ref(), &self.keys).err();
        report.faults.extend(fault.map(|fault| fault.to_string()));
        let checkpoint = stored.checkpoint;
        for (job, head) in stored.heads.iter() {
            match rows.get(&job) {
                None => report.removed = report.removed.saturating_add(1),
                Some(row) if row.job.log_head == Some(head) => {
                    report.proven = report.proven.saturating_add(1);
                }
                // The job was removed, and a run of the same id has come from elsewhere.
                Some(row) if row.job.imported_at_ms.is_some_and(|at_ms| at_ms > checkpoint.made_at_ms) => {
                    report.removed = report.removed.saturating_add(1);
                }
                // A job that has run again since has another head, which a later checkpoint names.
                Some(row) if has_run_again(row, &checkpoint) => {}
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

/// Whether the job was retried here, and has not ended since, or after the checkpoint.
fn has_run_again(row: &JobRow, checkpoint: &LogCheckpoint) -> bool {
    row.retried_at_ms.is_some()
        && row.job.imported_at_ms.is_none()
        && row.job.finished_at_ms.is_none_or(|ended| ended > checkpoint.through_ms)
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

    fn window(ended: &[EndedHead]) -> Option<(u64, usize)> {
        let window = CheckpointWindow::new(None, 100_000, Vec::new());
        window.cover(ended).map(|(through_ms, heads)| (through_ms, heads.iter().count()))
    }

    #[test]
    fn a_checkpoint_covers_all_jobs_that_ended_or_those_until_a_moment() {
        assert_eq!(window(&ended(5)), Some((40_000, 5)));
        let full = CHECKPOINT_JOBS as u64 + 1;
        assert_eq!(window(&ended(full)), Some((5_000, CHECKPOINT_JOBS + 1)));
        let at_once: Vec<_> =
            ended(full).into_iter().map(|job| EndedHead { finished_at_ms: 7, ..job }).collect();
        assert_eq!(window(&at_once), Some((7, CHECKPOINT_JOBS + 1)), "they cannot be told apart");
    }

    #[test]
    fn a_checkpoint_of_nothing_is_not_made() {
        assert_eq!(window(&[]), None);
        let unchained = |job| EndedHead { head: None, ..job };
        assert_eq!(window(&ended(1).into_iter().map(unchained).collect::<Vec<_>>()), None);
        let many: Vec<_> = ended(CHECKPOINT_JOBS as u64).into_iter().map(unchained).collect();
        assert!(window(&many).is_some(), "others may follow");
    }

    #[test]
    fn a_checkpoint_covers_imports_that_ended_before_its_window() {
        let key = LogSigningKey::from_seed([7; 32]).unwrap();
        let before =
            StoredCheckpoint::new(None, CheckpointJobs::new(Vec::new()), (100_000, 2), &key).checkpoint;
        let window = |imports| CheckpointWindow::new(Some(&before), 200_000, imports);
        let old_and_new = window(ended(8));
        assert_eq!((old_and_new.after_ms, old_and_new.room), (2, CHECKPOINT_JOBS - 8));
        let (through_ms, heads) = old_and_new.cover(&ended(8)[6..]).unwrap();
        assert_eq!((through_ms, heads.iter().count()), (140_000, 8), "each is in it once");
        let many: Vec<_> = ended(CHECKPOINT_JOBS as u64)
            .into_iter()
            .map(|job| EndedHead { finished_at_ms: 1, ..job })
            .collect();
        let full = window(many);
        assert_eq!(full.room, 0);
        let (through_ms, heads) = full.cover(&[]).unwrap();
        assert_eq!((through_ms, heads.iter().count()), (2, CHECKPOINT_JOBS), "the next one begins at once");
    }
}
