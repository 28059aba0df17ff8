//! Schedules. An occurrence becomes a job and the schedule advances in one transaction.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::JobStatus;
use crate::domain::schedule::{Schedule, ScheduledRequest};

/// Why a schedule was not stored. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The user has `limits.schedules` schedules already (HTTP: 429).
    #[error("there are {limit} schedules already (limits.schedules); delete one first")]
    SchedulesFull {
        /// The limit.
        limit: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A schedule and the state of its last job.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStatus {
    /// The schedule.
    pub schedule: Schedule,
    /// Status of the last job; `None` before the first one, or when it was deleted.
    pub last_status: Option<JobStatus>,
}

/// Filter and position of a schedule list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleQuery {
    /// Owner.
    pub user: UserId,
    /// Only schedules created before this one.
    pub before: Option<ScheduleId>,
    /// Page size.
    pub limit: usize,
}

/// A page of schedules, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<ScheduleStatus>,
    /// Whether older schedules follow.
    pub has_more: bool,
}

/// Result of one check for due schedules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FiredSchedules {
    /// Due schedules and the jobs that were created.
    pub jobs: Vec<(ScheduleId, JobId)>,
    /// The queue is full: the remaining due schedules stay due.
    pub is_blocked: bool,
}

/// Stores schedules.
pub trait Schedules: Send + Sync {
    /// Creates a schedule, unless the user has `limit` of them.
    fn put(&self, schedule: Schedule, order: ScheduledRequest, limit: u64)
    -> Ticket<Schedule, ScheduleError>;
    /// Deletes a schedule; its jobs stay. Returns whether it existed.
    fn remove(&self, user: UserId, id: ScheduleId) -> Ticket<bool>;
    /// Creates a job for each due schedule, oldest first, as long as `fresh_ids` last.
    fn fire_due(&self, fresh_ids: Vec<JobId>) -> Ticket<FiredSchedules>;
    /// Recomputes next runs after the wall clock went back. Returns how many changed.
    fn rearm(&self) -> Ticket<u64>;

    /// The schedule and its request, or `None` when it is not this user's.
    fn schedule(
        &self,
        user: UserId,
        id: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError>;
    /// A page of a user's schedules, newest first.
    fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, StoreError>;
    /// When the next schedule is due, unix milliseconds.
    fn next_run_ms(&self) -> Result<Option<u64>, StoreError>;
}
