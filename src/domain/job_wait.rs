//! What a job waits for that does not run: computed from its place in the queues when it is read.

use super::id::JobId;
use serde::{Deserialize, Serialize};

/// Why a job does not run yet. The names are stored for delayed jobs.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobWaitReason {
    /// It may run now; a worker takes it when its turn comes.
    Worker,
    /// An earlier job of its conversation has not ended.
    Conversation,
    /// Its start time has not come.
    Time,
    /// Its provider is busy or paused.
    Provider,
    /// Somebody has to decide about its tool calls.
    Approval,
    /// The last attempt failed; the next one follows after a pause.
    Retry,
    /// A job that it comes after (`after`) has not ended.
    Predecessor,
}

/// What a job waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobWait {
    /// Why it waits.
    pub reason: JobWaitReason,
    /// How long at most, if that is known, unix milliseconds.
    pub until_ms: Option<u64>,
    /// The job of its conversation just before it, or the first one that it comes after and that has not
    /// ended.
    pub after_job: Option<JobId>,
}

impl JobWait {
    /// A wait with an end that is known, or not.
    pub fn until(reason: JobWaitReason, until_ms: Option<u64>) -> Self {
        Self { reason, until_ms, after_job: None }
    }

    /// A wait behind the job of the conversation before it.
    pub fn behind(after_job: Option<JobId>) -> Self {
        Self { reason: JobWaitReason::Conversation, until_ms: None, after_job }
    }

    /// A wait for the end of a job that it comes after.
    pub fn after(after_job: Option<JobId>) -> Self {
        Self { reason: JobWaitReason::Predecessor, until_ms: None, after_job }
    }
}
