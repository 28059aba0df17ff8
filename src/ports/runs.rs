//! Ended jobs on their way to or from another server.

use super::quota_refusal::QuotaRefusal;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::Job;
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::run::{EndedRun, ImportedRun};

/// Why a run was not imported. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// A job of this id is there, of any user, and is not the same (HTTP: 409).
    #[error("{job} is on this server already, and it is not the same run")]
    Taken {
        /// The id.
        job: JobId,
    },
    /// The account's quota is used up (HTTP: 429).
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What came of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportOutcome {
    /// The job is stored.
    Stored(Job),
    /// The user has this run already, with the same log.
    Unchanged(Job),
}

/// Reads and stores whole runs.
pub trait Runs: Send + Sync {
    /// An ended job of this user, or `None`.
    fn ended_run(&self, user: UserId, job: JobId) -> Result<Option<EndedRun>, StoreError>;
    /// Records of a job's log as they are stored, behind this place: at least one if there is any, and then
    /// as many as fit into `max_bytes`.
    fn log_records(
        &self,
        job: JobId,
        after: RecordPlace,
        max_bytes: usize,
    ) -> Result<Vec<LogRecord>, StoreError>;
    /// Stores a run under its own id. Nothing runs, no webhook is sent, and its usage is not booked.
    fn import_run(&self, user: UserId, run: ImportedRun) -> Ticket<ImportOutcome, ImportError>;
}
