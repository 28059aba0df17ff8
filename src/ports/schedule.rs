//! What is due again and again, as everybody else sees it. Owns the trait and the values that cross it; refuses to know
//! when anybody looks at the clock.

use super::store::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::job::JobStatus;
use crate::domain::schedule::{Schedule, ScheduledRequest};

/// A schedule, and what became of its last job.
#[derive(Debug, Clone, PartialEq)]
pub struct ScheduleStatus {
    /// The schedule.
    pub schedule: Schedule,
    /// How its last job stands now; `None` before the first, or when the job is gone.
    pub last_status: Option<JobStatus>,
}

/// Which schedules a list shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleQuery {
    /// Only this user's.
    pub user: UserId,
    /// Only those made before this one.
    pub before: Option<ScheduleId>,
    /// At most so many.
    pub limit: usize,
}

/// A page of schedules, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct SchedulePage {
    /// The schedules.
    pub schedules: Vec<ScheduleStatus>,
    /// Whether older ones would follow.
    pub has_more: bool,
}

/// What one look at the clock came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FiredSchedules {
    /// What was due, and the jobs that it became.
    pub jobs: Vec<(ScheduleId, JobId)>,
    /// The queue is full: what is due stays due.
    pub is_blocked: bool,
}

/// Schedules, kept where the jobs are: an occurrence becomes a job and moves on to the next one in one transaction.
pub trait Schedules: Send + Sync {
    /// Stores a schedule, unless its user has `most` of them already.
    fn put(&self, schedule: Schedule, order: ScheduledRequest, most: u64) -> Ticket<Schedule>;
    /// Forgets a schedule; the jobs that it has made stay. Whether the user had it.
    fn remove(&self, user: UserId, id: ScheduleId) -> Ticket<bool>;
    /// Makes a job of each schedule that is due, oldest first, as long as there are fresh ids.
    fn fire_due(&self, fresh_ids: Vec<JobId>) -> Ticket<FiredSchedules>;
    /// The wall clock may have gone back: computes anew what it had computed before. How many there were.
    fn rearm(&self) -> Ticket<u64>;

    /// The schedule with what it asks for, if it is this user's.
    fn schedule(
        &self,
        user: UserId,
        id: ScheduleId,
    ) -> Result<Option<(ScheduleStatus, ScheduledRequest)>, StoreError>;
    /// A page of a user's schedules, newest first.
    fn schedules(&self, query: &ScheduleQuery) -> Result<SchedulePage, StoreError>;
    /// When the next one is due, unix milliseconds.
    fn next_run_ms(&self) -> Result<Option<u64>, StoreError>;
}
