//! The stored row of a job: its state and its position in the queues. Input and output have tables of their
//! own.

use crate::domain::event::Record;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::job_wait::{JobWait, JobWaitReason};
use crate::domain::log_chain::{ChainLink, FoldNote};
use crate::domain::run::{EndedRun, ImportedRun, LogStage, RunState};
use crate::domain::usage::UsageByModel;
use crate::ports::StoreError;
use crate::store::limits::StoreLimits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The time until which a job is delayed that waits for others, or for its end: the last one that both stores
/// can keep, unix milliseconds.
pub(crate) const HELD_UNTIL_MS: u64 = u64::MAX >> 1;

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueuePlace {
    /// In the ready queue.
    Ready,
    /// Until its start time, while it waits for an approval until that expires, or while it is held
    /// ([`JobRow::is_held`]).
    Delayed,
    /// Waits for an earlier job of its conversation.
    Behind,
    /// In no queue: it runs, or has ended.
    Out,
}

/// A request for approval and the decisions so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovalRecord {
    /// Maximum wait for the decision, milliseconds.
    pub(crate) timeout_ms: u64,
    /// Decision by call: true for approved. Makes a repeated decision a no-op.
    pub(crate) decided: BTreeMap<String, bool>,
    /// The decisions of the request before: the repetition of one may come late.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) decided_before: BTreeMap<String, bool>,
}

/// A row of the table `jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRow {
    pub(crate) job: Job,
    /// Acceptance number: rises over all jobs of the store.
    pub(crate) accept: u64,
    /// Its fair time, once it has one. A released job keeps it, and so its turn.
    pub(crate) fair: Option<u64>,
    #[serde(rename = "place")]
    pub(crate) queue_place: QueuePlace,
    /// Reason of the next run, when it is unusual.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<String>,
    /// Earliest time of the next attempt, unix milliseconds; overrides the job's own start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume_at_ms: Option<u64>,
    /// Why the next attempt is delayed; absent in rows of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delayed_for: Option<JobWaitReason>,
    /// Usage of the job: the sum of its log. Stored because retention removes the log.
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) ledger: UsageByModel,
    /// The part of `ledger` that is booked already: see [`crate::store::rows::usage`].
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) booked: UsageByModel,
    /// The last request for approval.
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ApprovalRecord>,
    /// How often the job has asked for approval, retries included; 0 also in rows of earlier builds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) approvals_asked: u32,
    /// First acceptance number of a retried job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_accept: Option<u64>,
    /// Whether it ended with an output, which has a row of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_output: bool,
    /// When the job was last retried, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retried_at_ms: Option<u64>,
    /// Whether its log was begun with a chain: not by earlier versions, and not without `store.chain_logs`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_chained: bool,
    /// What retention has folded of its log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fold: Option<FoldNote>,
    /// Jobs that it comes after and that have not ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) blocked_by: Vec<JobId>,
    /// A job whose failure ends this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failed_predecessor: Option<JobId>,
    /// Whether others may wait for its end. Not stored: the database has a column.
    #[serde(skip)]
    pub(crate) has_dependents: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl JobRow {
    /// A job that is in no queue yet.
    pub(crate) fn new(job: Job, accept: u64) -> Self {
        Self {
            job,
            accept,
            fair: None,
            queue_place: QueuePlace::Out,
            resumed: None,
            resume_at_ms: None,
            delayed_for: None,
            ledger: UsageByModel::default(),
            booked: UsageByModel::default(),
            approval: None,
            approvals_asked: 0,
            first_accept: None,
            has_output: false,
            retried_at_ms: None,
            is_chained: true,
            fold: None,
            blocked_by: Vec::new(),
            failed_predecessor: None,
            has_dependents: false,
        }
    }

    /// A new job, under these limits.
    pub(crate) fn accepted(job: Job, accept: u64, limits: &StoreLimits) -> Self {
        Self { is_chained: limits.chains_logs, ..Self::new(job, accept) }
    }

    /// Where the chain of its log starts, if it has one.
    pub(crate) fn chain_start(&self) -> Option<ChainLink> {
        self.is_chained.then(|| ChainLink::start(self.id()))
    }

    /// A job from another server. Its usage counts as booked: that server has done so.
    pub(crate) fn imported(run: &ImportedRun, user: UserId, (accept, now_ms): (u64, u64)) -> Self {
        let EndedRun { state, output, usage, .. } = &run.run;
        let log_head = run.log_head();
        Self {
            is_chained: log_head.is_some(),
            ledger: usage.clone(),
            booked: usage.clone(),
            has_output: !output.is_empty(),
            fold: state.fold,
            retried_at_ms: state.retried_at_ms,
            ..Self::new(Job { log_head, ..run.job(user, now_ms) }, accept)
        }
    }

    /// The state of an ended job for another server.
    pub(crate) fn run_state(&self, finished_at_ms: u64, log: LogStage) -> RunState {
        let job = &self.job;
        RunState {
            id: job.id,
            status: job.status,
            attempt: job.attempt,
            failed_runs: job.failed_runs,
            epoch: job.epoch,
            created_at_ms: job.created_at_ms,
            started_at_ms: job.started_at_ms,
            finished_at_ms,
            retried_at_ms: self.retried_at_ms,
            last_event_id: job.last_event_id,
            log,
            log_head: job.log_head,
            fold: self.fold,
        }
    }

    /// Whether it is this ended job of this user, as far as the row tells.
    pub(crate) fn is_same_run(&self, user: UserId, EndedRun { state: run, usage, .. }: &EndedRun) -> bool {
        let job = &self.job;
        job.user == user
            && self.ledger == *usage
            && (job.status, job.finished_at_ms) == (run.status, Some(run.finished_at_ms))
            && (job.created_at_ms, job.last_event_id) == (run.created_at_ms, run.last_event_id)
    }

    /// Earliest start, unix milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        if self.is_held() {
            return Some(HELD_UNTIL_MS);
        }
        self.resume_at_ms.or(self.job.run_at_ms)
    }

    /// What it waits for. `before` finds the job of the conversation just before it.
    fn wait(
        &self,
        now_ms: u64,
        before: impl FnOnce() -> Result<Option<JobId>, StoreError>,
    ) -> Result<Option<JobWait>, StoreError> {
        let due_ms = self.due_ms().filter(|due_ms| *due_ms > now_ms);
        Ok(match (self.job.status, self.queue_place, due_ms) {
            (JobStatus::Waiting, ..) => {
                let answer_ms = self.job.approval.as_ref().map(|pending| pending.expires_at_ms);
                let until_ms = answer_ms.into_iter().chain(self.job.conditions.deadline_ms).min();
                Some(JobWait::until(JobWaitReason::Approval, until_ms))
            }
            (JobStatus::Queued, QueuePlace::Behind, _) => Some(JobWait::behind(before()?)),
            (JobStatus::Queued, QueuePlace::Delayed, _) if self.is_held() => Some(self.predecessor_wait()),
            (JobStatus::Queued, QueuePlace::Delayed, Some(_)) => {
                Some(JobWait::until(self.delay_reason(), due_ms))
            }
            (JobStatus::Queued, ..) => Some(JobWait::until(JobWaitReason::Worker, None)),
            _ => None,
        })
    }

    fn delay_reason(&self) -> JobWaitReason {
        match (self.resume_at_ms, self.delayed_for) {
            (None, _) => JobWaitReason::Time,
            (Some(_), Some(reason)) => reason,
            (Some(_), None) if self.job.failed_runs > 0 => JobWaitReason::Retry,
            (Some(_), None) => JobWaitReason::Provider,
        }
    }

    /// The job as its owner sees it. `before` finds the job of the conversation just before it.
    pub(crate) fn into_shown(
        self,
        now_ms: u64,
        before: impl FnOnce(&Self) -> Result<Option<JobId>, StoreError>,
    ) -> Result<Job, StoreError> {
        let waits_for = self.wait(now_ms, || before(&self))?;
        Ok(Job { waits_for, ..self.job })
    }

    pub(crate) fn id(&self) -> JobId {
        self.job.id
    }

    /// The usage in these records, if there is any.
    pub(crate) fn spent(&self, records: &[Record]) -> Option<UsageByModel> {
        let mut spent = UsageByModel::default();
        for record in records {
            spent.add_record(record, &self.job.model);
        }
        (!spent.is_empty()).then_some(spent)
    }

    /// Adds usage to the ledger.
    pub(crate) fn enter(&mut self, spent: &UsageByModel) {
        for (model, usage) in spent.entries() {
            self.ledger.add(model, usage);
        }
        self.job.usage = self.ledger.total();
    }

    /// Resets the row of a failed job, which is accepted again under this number. Its usage stays.
    pub(crate) fn accept_again(&mut self, accept: u64, now_ms: u64) {
        let job = Job {
            crashes: 0,
            failed_runs: 0,
            error: None,
            finished_at_ms: None,
            run_at_ms: None,
            cancel_requested: false,
            log_head: None,
            conditions: self.job.conditions.clone().without_past(now_ms),
            ..self.job.clone()
        };
        let (ledger, booked) = (std::mem::take(&mut self.ledger), std::mem::take(&mut self.booked));
        let first_accept = Some(self.first_accept.unwrap_or(self.accept));
        *self = Self {
            ledger,
            booked,
            first_accept,
            retried_at_ms: Some(now_ms),
            is_chained: self.is_chained,
            fold: self.fold,
            approvals_asked: self.approvals_asked,
            ..Self::new(job, accept)
        };
    }

    /// Changes the status. A forbidden transition is an error of the store and abandons the transaction (P4).
    pub(crate) fn become_status(&mut self, next: JobStatus) -> Result<(), StoreError> {
        if !self.job.status.may_become(next) {
            let (id, now) = (self.id(), self.job.status);
            return Err(StoreError::Corrupt(format!(
                "{id} is {} and cannot become {}",
                now.as_str(),
                next.as_str()
            )));
        }
        self.job.status = next;
        Ok(())
    }
}

/// Refuses terminal events: only the transaction that ends a job writes them.
pub(crate) fn refuse_terminal(records: &[Record]) -> Result<(), StoreError> {
    let is_terminal = |record: &Record| matches!(record, Record::Event(event) if event.is_terminal());
    if records.iter().any(is_terminal) {
        return Err(StoreError::Corrupt("a terminal event among a job's records".to_owned()));
    }
    Ok(())
}

/// The reason in the log of a retried job.
pub(crate) const RETRIED: &str = "somebody asked for another try";

/// The error text of a cancelled job.
pub(crate) const CANCELLED: &str = "the job was cancelled";

/// The error text of a poison job.
pub(crate) const POISON: &str = "the job was running each time the server crashed";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::domain::job::JobSpec;

    const NOW_MS: u64 = 1_000;

    fn row(change: impl FnOnce(&mut JobRow)) -> JobRow {
        let spec = JobSpec::new("demo".to_owned(), Vec::new(), 1, 1);
        let mut row = JobRow::new(Job::queued(JobId::from_bits(1), UserId(1), 0, &spec), 1);
        change(&mut row);
        row
    }

    fn wait(change: impl FnOnce(&mut JobRow)) -> Option<(JobWaitReason, Option<u64>)> {
        let found = row(change).wait(NOW_MS, || Ok(None)).unwrap();
        found.map(|wait| (wait.reason, wait.until_ms))
    }

    #[test]
    fn a_delayed_job_says_what_delays_it() {
        let delayed = |delayed_for, failed_runs| {
            wait(|row| {
                row.queue_place = QueuePlace::Delayed;
                row.resume_at_ms = Some(9_000);
                row.delayed_for = delayed_for;
                row.job.failed_runs = failed_runs;
            })
        };
        let until = Some(9_000);
        assert_eq!(delayed(Some(JobWaitReason::Provider), 1), Some((JobWaitReason::Provider, until)));
        assert_eq!(delayed(Some(JobWaitReason::Retry), 0), Some((JobWaitReason::Retry, until)));
        assert_eq!(delayed(None, 1), Some((JobWaitReason::Retry, until)), "a row of an earlier version");
        assert_eq!(delayed(None, 0), Some((JobWaitReason::Provider, until)), "a row of an earlier version");
    }

    #[test]
    fn a_job_whose_time_has_come_waits_for_a_worker() {
        let timed = |run_at_ms| {
            wait(|row| {
                row.queue_place = QueuePlace::Delayed;
                row.job.run_at_ms = Some(run_at_ms);
            })
        };
        assert_eq!(timed(NOW_MS + 1), Some((JobWaitReason::Time, Some(NOW_MS + 1))));
        assert_eq!(timed(NOW_MS), Some((JobWaitReason::Worker, None)));
    }

    #[test]
    fn a_job_that_runs_or_has_ended_waits_for_nothing() {
        for status in [JobStatus::Running, JobStatus::Succeeded, JobStatus::Failed, JobStatus::Cancelled] {
            assert_eq!(wait(|row| row.job.status = status), None);
        }
    }
}
