//! What a tool is, and how all of them together look to the engine. Owns both traits and the journal that runs are
//! reported to; refuses to know any tool by name (P6).

use super::stop::Leash;
use crate::domain::handle::ResultHandle;
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::tool::{Aliases, Strictness, ToolCall, ToolChoice, ToolSpec, ToolTraits};
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

/// Whose call it is and what it may use: comes from the job, never from the model.
#[derive(Clone)]
pub struct ToolContext {
    /// Whose job.
    pub user: UserId,
    /// Which job.
    pub job: JobId,
    /// The job's conversation.
    pub conversation_id: Option<ConversationId>,
    /// The job's project; its owner was checked when the job ran.
    pub project_id: Option<ProjectId>,
    /// The tools that the job may use; enforced at execution.
    pub allowed: ToolChoice,
    /// The job's default level for code.
    pub strictness: Option<Strictness>,
    /// The job's project directory, if it has a project: code that may use files uses these.
    pub workdir: Option<PathBuf>,
    /// When to stop.
    pub leash: Leash,
}

/// Why a tool has no result. The text is for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The arguments cannot be meant like this.
    #[error("{0}")]
    Invalid(String),
    /// It was tried and did not work; `data` is what there is to show (a traceback, output so far).
    #[error("{message}")]
    Failed {
        /// Why.
        message: String,
        /// What there is to show, `Null` when nothing.
        data: Value,
    },
}

/// One tool: one file, one line in the registry (P6).
pub trait Tool: Send + Sync {
    /// What models are told.
    fn spec(&self) -> ToolSpec;
    /// What its runs may do to the world.
    fn traits(&self) -> ToolTraits;
    /// Its other names.
    fn aliases(&self) -> Aliases {
        Aliases::default()
    }
    /// Whether it reads what was cut of other tools' results: it then goes along with them, whether the job names it or
    /// not.
    fn reads_results(&self) -> bool {
        false
    }
    /// How long a call with these arguments may run of its own right, on top of `limits.tool_timeout_s`. The tool sees
    /// to it that it takes no longer.
    fn own_time(&self, _arguments: &Map<String, Value>) -> Duration {
        Duration::ZERO
    }
    /// Runs it with arguments that fit the schema; the result is the `data` that the model gets.
    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError>;
}

/// What one call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// `{"success","data","error","execution_time"}`, a JSON text.
    pub content: String,
    /// The call was not run.
    pub skipped: bool,
    /// What was cut of the result, where the job has a way to read it.
    pub whole: Option<WholeResult>,
}

/// The texts of a result that were too long for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeResult {
    /// What the model was told to name it by.
    pub handle: ResultHandle,
    /// The text, at most `limits.tool_result_bytes` and a marker.
    pub content: String,
}

/// Where the executor reports, from the threads that run the tools.
pub trait Journal: Sync {
    /// Called before a call that is not idempotent runs; it runs only after this returned `Continue`.
    fn started(&self, call: &ToolCall) -> ControlFlow<()>;
    /// Called as soon as a call has its outcome.
    fn finished(&self, call: &ToolCall, outcome: ToolOutcome);
}

/// All tools together, as the engine sees them.
pub trait Toolbox: Send + Sync {
    /// What a job with this choice offers to its model, in stable order. What reads whole results is offered once there
    /// is one (`has_results`), or where the choice names it: small models mix its parameters into other calls.
    fn offered(&self, choice: &ToolChoice, has_results: bool) -> Vec<ToolSpec>;
    /// Whether there is a tool of this name, or one that has it as an alias.
    fn knows(&self, name: &str) -> bool;
    /// Whether the call may be made again when nobody knows whether it ran; unknown tools may.
    fn is_idempotent(&self, name: &str) -> bool;
    /// Makes the calls, several at once, and reports each. Returns when all are reported; a call that the leash
    /// cut off is reported as such.
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal);
}
