//! The stored rows of a batch and its lines, and the id of the job that a line becomes.

use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, JobId};
use crate::domain::job::JobSpec;
use crate::ports::{LineOutcome, NewBatch};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A row of the table `batches`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BatchRow {
    pub(crate) batch: Batch,
    /// The first line that has no job yet.
    pub(crate) next_line: u32,
    /// Its jobs that have not ended.
    pub(crate) active: u32,
    /// Number of lines with an ended job: the last number in the order of ends.
    pub(crate) ended: u32,
    /// Lines that were retried.
    pub(crate) retried: u64,
}

impl BatchRow {
    /// Whether the next line may begin.
    pub(crate) fn has_room(&self) -> bool {
        self.batch.status == BatchStatus::InProgress
            && self.active < self.batch.concurrency
            && self.next_line < self.batch.counts.total
    }

    /// Lines that have no job yet.
    pub(crate) fn unstarted(&self) -> u32 {
        self.batch.counts.total.saturating_sub(self.next_line)
    }

    /// Lines that have no job yet and will have one.
    pub(crate) fn waiting_lines(&self) -> u32 {
        let is_open = self.batch.status == BatchStatus::InProgress && self.batch.finished_at_ms.is_none();
        if is_open { self.unstarted() } else { 0 }
    }

    /// Lines that never start, because the batch was stopped and has ended.
    pub(crate) fn never_started(&self) -> u32 {
        match self.batch.status {
            BatchStatus::Cancelled | BatchStatus::Expired => self.unstarted(),
            _ => 0,
        }
    }

    /// The outcome of a line that never starts.
    pub(crate) fn unstarted_outcome(&self) -> LineOutcome {
        match self.batch.status {
            BatchStatus::Expired => LineOutcome::Expired,
            _ => LineOutcome::NotStarted,
        }
    }

    /// When the batch expires, if it is open.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.batch.expires_at_ms.filter(|_| self.batch.status == BatchStatus::InProgress)
    }

    /// Stops an open batch with one of the states [`BatchStatus::Cancelling`] and [`BatchStatus::Expiring`]:
    /// no further line starts. Returns how many never will.
    pub(crate) fn stop(&mut self, status: BatchStatus, now_ms: u64) -> u32 {
        let unstarted = self.unstarted();
        self.batch.status = status;
        self.batch.cancelling_at_ms = (status == BatchStatus::Cancelling).then_some(now_ms);
        self.batch.counts.failed = self.batch.counts.failed.saturating_add(unstarted);
        unstarted
    }

    /// Rises with every change that a reader may wait for.
    pub(crate) fn new_seqs(&self) -> u64 {
        let has_files = self.batch.source.as_ref().is_some_and(|source| source.files_at_ms.is_some());
        let ends = u64::from(self.batch.status.is_terminal()) * 2 + u64::from(has_files);
        u64::from(self.ended).saturating_add(self.retried) * 4 + ends
    }

    /// Reopens one line. An ended batch continues and ends again later; one that has been completed no longer
    /// expires.
    pub(crate) fn reopen(&mut self) {
        self.retried = self.retried.saturating_add(1);
        self.active = self.active.saturating_add(1);
        self.batch.counts.failed = self.batch.counts.failed.saturating_sub(1);
        self.batch.finished_at_ms = None;
        if let Some(source) = &mut self.batch.source {
            source.files_at_ms = None;
        }
        if self.batch.status == BatchStatus::Completed {
            self.batch.expires_at_ms = None;
        }
        self.batch.status = match self.batch.status {
            BatchStatus::Completed => BatchStatus::InProgress,
            BatchStatus::Cancelled => BatchStatus::Cancelling,
            BatchStatus::Expired => BatchStatus::Expiring,
            open => open,
        };
    }

    /// Ends the batch if no line is open. Returns whether it ended now.
    pub(crate) fn settle(&mut self, now_ms: u64) -> bool {
        if self.active > 0 || self.batch.counts.open() > 0 || self.batch.status.is_terminal() {
            return false;
        }
        self.batch.finished_at_ms = Some(now_ms);
        self.batch.status = match self.batch.status {
            BatchStatus::Cancelling => BatchStatus::Cancelled,
            BatchStatus::Expiring => BatchStatus::Expired,
            _ => BatchStatus::Completed,
        };
        true
    }
}

/// A row of the table `batch_lines`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct BatchLineRow {
    pub(crate) custom_id: String,
    /// The request, until it is moved to a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spec: Option<JobSpec>,
    /// The job, once the line has started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// Whether it has a number in the order of ends.
    pub(crate) has_ended: bool,
}

/// The id of the job that a line becomes: the batch's time, and 80 bits that the line alone decides, so that
/// no line can become two jobs.
pub(crate) fn job_id(batch: BatchId, line: u32) -> JobId {
    let digest: [u8; 32] =
        Sha256::new().chain_update(batch.to_bytes()).chain_update(line.to_be_bytes()).finalize().into();
    let mut bytes = batch.to_bytes();
    for (slot, byte) in bytes.iter_mut().skip(6).zip(digest) {
        *slot = byte;
    }
    JobId::from_bytes(bytes)
}

/// The state of a new batch.
pub(crate) fn accepted(new: &NewBatch) -> Batch {
    Batch {
        id: new.id,
        user: new.user,
        status: BatchStatus::InProgress,
        created_at_ms: new.created_at_ms,
        cancelling_at_ms: None,
        expires_at_ms: new.expires_at_ms,
        finished_at_ms: None,
        counts: BatchCounts { total: new.lines, ..BatchCounts::default() },
        concurrency: new.concurrency.max(1),
        webhook_url: new.webhook_url.clone(),
        waiting_for: None,
        source: new.source.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_batch_line_gets_a_unique_job_id_with_the_batch_time() {
        let batch = BatchId::from_bits((7 << 80) + 5);
        let ids: HashSet<_> = (0..1_000).map(|line| job_id(batch, line)).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.to_bytes()[..6] == batch.to_bytes()[..6]));
        assert_eq!(job_id(batch, 3), job_id(batch, 3));
    }
}
