//! The stored row of a job: its state and its position in the queues. Input and output have tables of their
//! own.

use crate::domain::event::Record;
use crate::domain::id::JobId;
use crate::domain::job::{Job, JobStatus};
use crate::domain::usage::UsageByModel;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::TurnKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueuePlace {
    /// In the ready queue.
    Ready,
    /// Until its start time or, while it waits for an approval, until that expires.
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
    /// Usage of the job: the sum of its log. Stored because retention removes the log.
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) ledger: UsageByModel,
    /// The part of `ledger` that is booked already: see [`crate::store::redb::accounts::usage`].
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) booked: UsageByModel,
    /// The last request for approval.
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<ApprovalRecord>,
    /// First acceptance number of a retried job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_accept: Option<u64>,
    /// Whether it ended with an output, which has a row of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) has_output: bool,
    /// When the job was last retried, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retried_at_ms: Option<u64>,
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
            ledger: UsageByModel::default(),
            booked: UsageByModel::default(),
            approval: None,
            first_accept: None,
            has_output: false,
            retried_at_ms: None,
        }
    }

    /// Earliest start, unix milliseconds.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.resume_at_ms.or(self.job.run_at_ms)
    }

    /// Its position in its conversation, if it has one.
    pub(crate) fn turn_key(&self) -> Option<TurnKey<'_>> {
        let conversation = self.job.conversation_id.as_ref()?;
        Some(TurnKey { user: self.job.user, conversation, accept: self.accept })
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
