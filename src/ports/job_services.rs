//! Work that a job's model submits: background jobs and schedules. The owner always comes from the calling
//! job.

use super::schedule::{ScheduleError, ScheduleStatus};
use super::store::{Idempotent, NewJob, SubmitError};
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, ScheduleId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{Job, JobSpec};
use crate::domain::job_rights::JobRights;
use crate::domain::schedule::Schedule;
use crate::domain::timing::Timing;

/// The tool call that submits work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCaller {
    /// Owner of the job.
    pub user: UserId,
    /// The job.
    pub job: JobId,
    /// The call within the job.
    pub id_ref: String,
}

/// A background job to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// Task for the new job.
    pub task: String,
    /// Short label for people.
    pub label: String,
    /// What is left of the rights of the calling job.
    pub rights: JobRights,
}

/// A schedule to create, with validated timing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSchedule {
    /// Name for people.
    pub name: Option<String>,
    /// When it runs.
    pub timing: Timing,
    /// Prompt of each job.
    pub message: String,
    /// What each of its jobs may do: no more than the calling job.
    pub rights: JobRights,
}

/// Why work was refused. The text is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobServiceError {
    /// A quota of the account is used up.
    #[error("{0}")]
    Quota(String),
    /// The calling job has been deleted.
    #[error("the job that asks for this was deleted")]
    NoCaller,
    /// The background job was refused.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The schedule was refused.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a background job was not accepted. The texts are for the caller, who may be a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpawnError {
    /// The user has `limits.spawned_jobs` unfinished background jobs (HTTP: 429).
    #[error(
        "{limit} background jobs are unfinished, as many as there may be (limits.spawned_jobs); wait for one or cancel one"
    )]
    SpawnedFull {
        /// The limit.
        limit: u64,
    },
    /// The job was refused like any other.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<StoreError> for SpawnError {
    fn from(error: StoreError) -> Self {
        Self::Submit(error.into())
    }
}

/// Creates and lists background jobs and schedules for tools.
pub trait JobServices: Send + Sync {
    /// Creates a background job with the settings of the calling job and these rights. Repeating the same
    /// call creates no second job.
    fn spawn(&self, caller: &ToolCaller, task: BackgroundTask) -> Result<Job, JobServiceError>;
    /// Unfinished background jobs of the caller's conversation, oldest first; without a conversation, those
    /// of the calling job.
    fn spawned(&self, caller: &ToolCaller) -> Result<Vec<Job>, JobServiceError>;
    /// Cancels a background job and returns it; `None` when the user has no such job.
    fn cancel(&self, caller: &ToolCaller, job: JobId) -> Result<Option<Job>, JobServiceError>;
    /// Creates a schedule. Its jobs get the settings and the conversation of the calling job.
    fn schedule(&self, caller: &ToolCaller, plan: NewSchedule) -> Result<Schedule, JobServiceError>;
    /// The user's schedules, newest first, up to `limit`, and whether more exist.
    fn schedules(
        &self,
        caller: &ToolCaller,
        limit: usize,
    ) -> Result<(Vec<ScheduleStatus>, bool), JobServiceError>;
    /// Deletes a schedule. Returns whether it existed.
    fn unschedule(&self, caller: &ToolCaller, id: ScheduleId) -> Result<bool, JobServiceError>;
}

/// Stores background jobs.
pub trait BackgroundJobs: Send + Sync {
    /// The request of a job, or `None` when it is not this user's.
    fn spec(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError>;
    /// Stores a job that another job started, once per key ([`super::Store::submit_once`]). Fails with
    /// [`SpawnError::SpawnedFull`] when the user has `limit` unfinished ones. The job runs beside its
    /// conversation.
    fn spawn(&self, job: NewJob, key: IdempotencyKey, limit: u64) -> Ticket<Idempotent<Job>, SpawnError>;
    /// A user's unfinished background jobs, oldest first.
    fn spawned(&self, user: UserId) -> Result<Vec<Job>, StoreError>;
}
