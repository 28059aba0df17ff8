//! A job's small row: how it stands and where it waits. Owns the one way to change a state; refuses the big
//! immutable parts (what was asked, what was answered), which have tables of their own.

use crate::domain::event::Record;
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::usage::UsageByModel;
use crate::ports::StoreError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// In the ready queue.
    Ready,
    /// Not before its time; or, while it waits for approval, until it has waited long enough.
    Delayed,
    /// Behind an earlier job of its conversation.
    Behind,
    /// Nowhere: it runs, or has ended.
    Out,
}

/// A question about calls, and what was said to it so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// How long somebody had to decide.
    pub(super) timeout_ms: u64,
    /// By call, whether it was approved: so that the same word said twice is one.
    pub(super) decided: BTreeMap<String, bool>,
}

/// What the `jobs` table holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) job: Job,
    /// Number of its acceptance: rises over all jobs of the store.
    pub(super) accept: u64,
    /// Its fair time, once it has one; a job given back keeps it, and so its turn.
    pub(super) fair: Option<u64>,
    pub(super) place: Place,
    /// Why the next run is not the ordinary way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resumed: Option<String>,
    /// Not before this time, whatever the job itself says: it waits for another attempt. Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) resume_at_ms: Option<u64>,
    /// What the job has spent: the sum of its log, kept because retention takes the log away.
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(super) ledger: UsageByModel,
    /// How much of that stands in the accounts: see [`super::accounts`].
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(super) booked: UsageByModel,
    /// What somebody was last asked to approve of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<Asked>,
    /// Number of its first acceptance, once somebody has asked for another try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_accept: Option<u64>,
    /// When somebody last asked for another try, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) retried_at_ms: Option<u64>,
}

impl Row {
    /// A job that has no place yet.
    pub(super) fn new(job: Job, accept: u64) -> Self {
        Self {
            job,
            accept,
            fair: None,
            place: Place::Out,
            resumed: None,
            resume_at_ms: None,
            ledger: UsageByModel::default(),
            booked: UsageByModel::default(),
            asked: None,
            first_accept: None,
            retried_at_ms: None,
        }
    }

    /// Not before this time, unix milliseconds.
    pub(super) fn due_ms(&self) -> Option<u64> {
        self.resume_at_ms.or(self.job.run_at_ms)
    }

    pub(super) fn id(&self) -> JobId {
        self.job.id
    }

    /// What these records say was spent; `None`: nothing.
    pub(super) fn spent(&self, records: &[Record]) -> Option<UsageByModel> {
        let mut spent = UsageByModel::default();
        for record in records {
            spent.enter(record, &self.job.model);
        }
        (!spent.is_empty()).then_some(spent)
    }

    /// Takes in what was spent.
    pub(super) fn enter(&mut self, spent: &UsageByModel) {
        for (model, usage) in spent.entries() {
            self.ledger.add(model, usage);
        }
        self.job.usage = self.ledger.total();
    }

    /// Follows the state machine; an impossible step is a fault of the store and abandons the transaction (P4).
    pub(super) fn become_status(&mut self, next: JobStatus) -> Result<(), StoreError> {
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
