//! Counts the effects of a group of writes, and reports them after its commit.

use crate::domain::event::{Event, FailureCode};
use crate::domain::job::JobStatus;
use crate::ports::{Measurement, Meter};
use crate::store::rows::job::JobRow;

/// Accepted, claimed and ended jobs of a group.
#[derive(Debug, Default)]
pub(crate) struct CommitMetrics {
    accepted: u64,
    waited_ms: Vec<u64>,
    ended: Vec<EndedJob>,
    /// Jobs of each node that was taken over.
    taken_over: Vec<u64>,
}

#[derive(Debug)]
struct EndedJob {
    status: JobStatus,
    code: Option<FailureCode>,
    ran_ms: Option<u64>,
}

impl CommitMetrics {
    pub(crate) fn accept(&mut self) {
        self.accepted = self.accepted.saturating_add(1);
    }

    /// Counts a claimed job and the time that it was ready.
    pub(crate) fn claim(&mut self, waited_ms: u64) {
        self.waited_ms.push(waited_ms);
    }

    /// Counts a node that was taken over, and its jobs.
    pub(crate) fn take_over(&mut self, jobs: u64) {
        self.taken_over.push(jobs);
    }

    /// Counts an ended job. The row has the time and the status.
    pub(crate) fn end(&mut self, row: &JobRow, event: &Event) {
        let code = match event {
            Event::Error { code, .. } => Some(*code),
            _ => None,
        };
        let (started, finished) = (row.job.started_at_ms, row.job.finished_at_ms);
        // For a retried job, exclude the time before the retry.
        let since = started.map(|started| row.retried_at_ms.map_or(started, |retried| retried.max(started)));
        let ran_ms = since.zip(finished).map(|(since, finished)| finished.saturating_sub(since));
        self.ended.push(EndedJob { status: row.job.status, code, ran_ms });
    }

    /// Reports the counts after the commit.
    pub(crate) fn report(self, meter: &dyn Meter) {
        let us = |ms: u64| ms.saturating_mul(1_000);
        if self.accepted > 0 {
            meter.record(Measurement::Accepted(self.accepted));
        }
        for waited_ms in self.waited_ms {
            meter.record(Measurement::Claimed { waited_us: us(waited_ms) });
        }
        for jobs in self.taken_over {
            meter.record(Measurement::NodeTakenOver { jobs });
        }
        for EndedJob { status, code, ran_ms } in self.ended {
            meter.record(Measurement::Ended { status, code, ran_us: ran_ms.map(us) });
        }
    }
}
