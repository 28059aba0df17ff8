//! Schedules. An occurrence becomes a job and the schedule advances in one transaction.

use super::quota_refusal::QuotaRefusal;
use super::store::SubmitError;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::account::Role;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::{Job, JobStatus};
use crate::domain::limits::Limits;
use crate::domain::schedule::{Schedule, ScheduledRequest};
use crate::domain::timing::Timing;

/// Why a schedule was not stored. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The user has `limits.schedules` schedules already (HTTP: 429).
    #[error("there are {limit} schedules already (limits.schedules); delete one first")]
    SchedulesFull {
        /// The limit.
        limit: u64,
    },
    /// The user's models have made `limits.model_schedules` schedules already.
    #[error(
        "models have made {limit} schedules already (limits.model_schedules); remove one first, or let the user make it"
    )]
    ModelSchedulesFull {
        /// The limit.
        limit: u64,
    },
    /// The schedule would run too often.
    #[error(
        "a schedule of yours may run every {min_s} s at most ({limit}); this one would run every {gap_s} s"
    )]
    TooOften {
        /// Name of the limit in the configuration.
        limit: &'static str,
        /// The limit, seconds.
        min_s: u64,
        /// Its shortest interval, seconds.
        gap_s: u64,
    },
    /// The schedule is a model's, and its job would not be allowed to run now (HTTP: 409).
    #[error(
        "a model has made this schedule: its last job has not ended, or such jobs have spent their tokens of today \
         (limits.model_schedule_tokens)"
    )]
    ModelScheduleHeld,
    /// Its job was not accepted.
    #[error("{0}")]
    Submit(SubmitError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<SubmitError> for ScheduleError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Store(error) => Self::Store(error),
            other => Self::Submit(other),
        }
    }
}

/// The least interval of a new schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinInterval {
    /// Name of the limit in the configuration.
    pub limit: &'static str,
    /// Seconds.
    pub min_s: u64,
}

impl MinInterval {
    /// The interval for schedules that models make.
    pub fn of_models(limits: &Limits) -> Self {
        Self { limit: "limits.model_schedule_s", min_s: limits.model_schedule_s }
    }

    /// The interval for users with this role.
    pub fn of_role(role: Role, limits: &Limits) -> Self {
        let min_s = if role == Role::Admin { 0 } else { limits.schedule_s };
        Self { limit: "limits.schedule_s", min_s }
    }

    /// The longer one of both.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.min_s > self.min_s { other } else { self }
    }

    /// Refuses a schedule that would run more often.
    pub fn check(self, timing: &Timing, now_ms: u64) -> Result<(), ScheduleError> {
        let Self { limit, min_s } = self;
        match timing.shortest_gap_ms(now_ms) {
            Some(gap_ms) if gap_ms < min_s.saturating_mul(1_000) => {
                Err(ScheduleError::TooOften { limit, min_s, gap_s: gap_ms / 1_000 })
            }
            _ => Ok(()),
        }
    }
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
    /// Schedules of models whose occurrence was skipped: their jobs have spent their tokens of the day, or
    /// the last one has not ended.
    pub skipped: Vec<ScheduleId>,
    /// Schedules whose occurrence was skipped, because a quota of their owner is used up; those whose
    /// occurrence before was skipped, too, are not repeated.
    pub over_quota: Vec<(ScheduleId, QuotaRefusal)>,
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
    /// Pauses a schedule, or lets it go on. Returns whether it exists.
    fn set_paused(&self, user: UserId, id: ScheduleId, is_paused: bool) -> Ticket<bool>;
    /// Creates a job of a schedule now, with this id, and does not move the schedule on. `None`: it does not
    /// exist.
    fn run_now(&self, user: UserId, id: ScheduleId, fresh_id: JobId) -> Ticket<Option<Job>, ScheduleError>;
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
