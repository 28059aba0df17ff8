//! The stored row of a job: its state and its place in the queues. Input and output have tables of their own.

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
    /// Not before its time; or, while it waits for approval, until it has waited long enough.
    Delayed,
    /// Behind an earlier job of its conversation.
    Behind,
    /// Nowhere: it runs, or has ended.
    Out,
}

/// A request for approval and the decisions so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApprovalRecord {
    /// How long the decision could take, milliseconds.
    pub(crate) timeout_ms: u64,
    /// By call, whether it was approved: so that the same word said twice is one.
    pub(crate) decided: BTreeMap<String, bool>,
}

/// A row of the table `jobs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobRow {
    pub(crate) job: Job,
    /// Number of its acceptance: rises over all jobs of the store.
    pub(crate) accept: u64,
    /// Its fair time, once it has one; a job given back keeps it, and so its turn.
    pub(crate) fair: Option<u64>,
    pub(crate) place: QueuePlace,
    /// Why the next run is not the ordinary way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resumed: Option<String>,
    /// Not before this time, whatever the job itself says: it waits for another attempt. Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) resume_at_ms: Option<u64>,
    /// Usage of the job: the sum of its log, kept because retention removes the log.
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) ledger: UsageByModel,
    /// How much of that stands in the accounts: see [`crate::store::redb::accounts::usage`].
    #[serde(default, skip_serializing_if = "UsageByModel::is_empty")]
    pub(crate) booked: UsageByModel,
    /// The last request for approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<ApprovalRecord>,
    /// Number of its first acceptance, once the job was retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) first_accept: Option<u64>,
    /// When the job was last retried, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retried_at_ms: Option<u64>,
}

impl JobRow {
    /// A job that has no place yet.
    pub(crate) fn new(job: Job, accept: u64) -> Self {
        Self {
            job,
            accept,
            fair: None,
            place: QueuePlace::Out,
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
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.resume_at_ms.or(self.job.run_at_ms)
    }

    /// Its place in its conversation, if it is in one.
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

    /// Follows the state machine; an impossible step is a fault of the store and abandons the transaction
    /// (P4).
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
