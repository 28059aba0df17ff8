//! Work that a job's model hands in for itself: background jobs and schedules. Owns the traits and what crosses them; refuses
//! to know whose name the work is done in but from the job that asks.

use super::schedule::ScheduleStatus;
use super::store::{Idempotent, NewJob, StoreError};
use super::ticket::Ticket;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec};
use crate::domain::schedule::Schedule;
use crate::domain::timing::Timing;
use crate::domain::tool::ToolChoice;

/// The call that hands work in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCaller {
    /// Whose job.
    pub user: UserId,
    /// Which job.
    pub job: JobId,
    /// Which of its calls.
    pub id_ref: String,
}

/// A background job to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// What it is to do.
    pub task: String,
    /// For people, short.
    pub label: String,
    /// What it may call.
    pub tools: ToolChoice,
}

/// A schedule to be, its timing checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// For people.
    pub name: Option<String>,
    /// When.
    pub timing: Timing,
    /// What each of its jobs is asked.
    pub message: String,
    /// What they may call.
    pub tools: ToolChoice,
}

/// Why an errand was not taken. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobServiceError {
    /// The account may not have more for now.
    #[error("{0}")]
    Quota(String),
    /// The job that asks is not there any more.
    #[error("the job that asks for this was deleted")]
    NoAsker,
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes errands.
pub trait JobServices: Send + Sync {
    /// Begins a background job, which is asked as the asking job was: the same call asked twice begins one.
    fn spawn(&self, asker: &ToolCaller, errand: BackgroundTask) -> Result<Job, JobServiceError>;
    /// The background jobs of the asking job's conversation that have not ended, oldest first; without a conversation, its
    /// own.
    fn spawned(&self, asker: &ToolCaller) -> Result<Vec<Job>, JobServiceError>;
    /// Cancels a background job of this user: how it then stands; `None` where there is no such job.
    fn cancel(&self, asker: &ToolCaller, job: JobId) -> Result<Option<Job>, JobServiceError>;
    /// Makes a schedule, whose jobs are asked as the asking job was, in its conversation.
    fn schedule(&self, asker: &ToolCaller, plan: NewSchedule) -> Result<Schedule, JobServiceError>;
    /// This user's schedules, newest first, up to `limit`, and whether there are more.
    fn schedules(
        &self,
        asker: &ToolCaller,
        limit: usize,
    ) -> Result<(Vec<ScheduleStatus>, bool), JobServiceError>;
    /// Forgets a schedule; whether this user had it.
    fn unschedule(&self, asker: &ToolCaller, id: ScheduleId) -> Result<bool, JobServiceError>;
}

/// The store's part of background jobs.
pub trait BackgroundJobs: Send + Sync {
    /// What the job was asked, if it is this user's.
    fn spec(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError>;
    /// Stores a job whose origin is another one, unless its key was seen before ([`super::Store::submit_once`]) or its user
    /// has `most` unfinished ones ([`StoreError::SpawnedFull`]). It runs beside its conversation.
    fn spawn(&self, job: NewJob, key: IdempotencyKey, most: u64) -> Ticket<Idempotent<Job>>;
    /// A user's jobs of this kind that have not ended, oldest first.
    fn spawned(&self, user: UserId) -> Result<Vec<Job>, StoreError>;
}
