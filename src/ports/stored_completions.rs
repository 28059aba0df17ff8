//! Chat completions that a client stored: jobs that are listed beside all others.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::Job;
use std::collections::BTreeMap;

/// Filter and position of a list of stored completions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletionQuery {
    /// Owner.
    pub user: UserId,
    /// Only answers of this model.
    pub model: Option<String>,
    /// Only completions behind this one in the list.
    pub after: Option<JobId>,
    /// The newest first, else the oldest.
    pub is_newest_first: bool,
    /// Page size.
    pub limit: usize,
}

/// A page of stored completions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletionPage {
    /// Their jobs.
    pub jobs: Vec<Job>,
    /// Whether more follow.
    pub has_more: bool,
}

/// Finds stored completions: jobs with [`crate::domain::job::JobSpec::is_stored_completion`] that have
/// succeeded. Every lookup uses id and user together (P7).
pub trait StoredCompletions: Send + Sync {
    /// The job, or `None` when the user has no such completion.
    fn completion(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError>;
    /// A page of a user's completions, in the order of their jobs' ids.
    fn completions(&self, query: &CompletionQuery) -> Result<CompletionPage, StoreError>;
    /// Replaces the labels. Returns the job, or `None` when the user has no such completion.
    fn label_completion(
        &self,
        user: UserId,
        job: JobId,
        metadata: BTreeMap<String, String>,
    ) -> Ticket<Option<Job>>;
}
