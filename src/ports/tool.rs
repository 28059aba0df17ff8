//! What a tool is, and how all of them together look to the engine. Owns both traits and the journal that runs are
//! reported to; refuses to know any tool by name (P6).

use super::budget::TokenBudget;
use super::cancel::CancelToken;
use crate::domain::event::AgentStep;
use crate::domain::handle::ResultHandle;
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::JobOrigin;
use crate::domain::secret::Redactor;
use crate::domain::tool::{
    Aliases, Strictness, ToolCall, ToolChoice, ToolDefinition, ToolOrigin, ToolReach, ToolSpec, ToolTraits,
};
use crate::domain::usage::Usage;
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// What its model was asked with: calls that ask a model of their own ask as the job does.
    pub terms: ModelParameters,
    /// Where the job comes from.
    pub origin: JobOrigin,
    /// The operator makes the call: there is no such job.
    pub is_trial: bool,
    /// The call that is made, as its result will name it; the executor sets it. In what it is given, the call that these
    /// calls are part of; empty for a job's own.
    pub id_ref: String,
    /// Which calls may be made although they need approval.
    pub approved: ApprovedCalls,
    /// When to stop.
    pub cancel: CancelToken,
}

/// Calls that may be made although they need approval: decided before the tools of the moment are looked up, so that a
/// tool which has come or changed in between is not run unasked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovedCalls {
    /// All of them: the operator makes the call.
    All,
    /// Those that somebody has approved of, by `id_ref`.
    Calls(Arc<[String]>),
    /// None: nobody can be asked.
    None,
}

impl ApprovedCalls {
    /// Whether this call may be made.
    pub fn covers(&self, id_ref: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Calls(id_refs) => id_refs.iter().any(|approved| approved == id_ref),
        }
    }
}

/// How a job asks its model.
#[derive(Debug, Clone, Default)]
pub struct ModelParameters {
    /// The configured model that answers the job now.
    pub model: String,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Bound of one answer.
    pub max_tokens: Option<u32>,
    /// Of `max_total_tokens`, what is left for the calls that run at the same time.
    pub budget: TokenBudget,
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

impl ToolError {
    /// It did not work, and there is nothing to show.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), data: Value::Null }
    }

    /// The same without these secrets.
    #[must_use]
    pub fn veiled(self, veil: &Redactor) -> Self {
        match self {
            Self::Invalid(message) => Self::Invalid(veil.text(&message)),
            Self::Failed { message, data } => {
                Self::Failed { message: veil.text(&message), data: veil.value(data) }
            }
        }
    }
}

/// One tool: one file, one line in the registry (P6).
pub trait Tool: Send + Sync {
    /// What models are told.
    fn spec(&self) -> ToolSpec;
    /// What its runs may do to the world.
    fn traits(&self) -> ToolTraits;
    /// The same, of runs in a project or in none.
    fn traits_in(&self, _has_project: bool) -> ToolTraits {
        self.traits()
    }
    /// Where it comes from.
    fn origin(&self) -> ToolOrigin {
        ToolOrigin::BuiltIn
    }
    /// Its other names.
    fn aliases(&self) -> Aliases {
        Aliases::default()
    }
    /// Names by which the operator may mean it when saying what needs approval, on top of its name and its aliases.
    fn approval_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether it reads what was cut of other tools' results: it then goes along with them, whether the job names it or
    /// not.
    fn reads_results(&self) -> bool {
        false
    }
    /// What its runs set going beyond their own job.
    fn reach(&self) -> ToolReach {
        ToolReach::Here
    }
    /// How the sandbox confines it, where that is the same for every call; else its results tell it as `strictness`.
    fn level(&self) -> Option<&'static str> {
        None
    }
    /// How long a call with these arguments may run of its own right, on top of `limits.tool_timeout_s`. The tool sees
    /// to it that it takes no longer.
    fn own_timeout(&self, _arguments: &Map<String, Value>) -> Duration {
        Duration::ZERO
    }
    /// Runs it with arguments that fit the schema; the result is the `data` that the model gets.
    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError>;
    /// The same, for a tool that has something to tell while it runs.
    fn call_with_progress(
        &self,
        arguments: &Map<String, Value>,
        context: &ToolContext,
        _report: &dyn ProgressReporter,
    ) -> Result<Value, ToolError> {
        self.call(arguments, context)
    }
}

/// Where a running tool tells what it does: into the log of its job.
pub trait ProgressReporter: Sync {
    /// A step of an agent that works for the call.
    fn step(&self, step: AgentStep);
    /// What an agent's call to a model has cost.
    fn spent(&self, model: &str, usage: Usage);
}

/// Tools that come and go while the server runs.
pub trait ToolSource: Send + Sync {
    /// Rises whenever [`ToolSource::tools`] would tell something else. Cheap.
    fn version(&self) -> u64;
    /// The tools of now, in stable order.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
}

/// A tool as people see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// What models are told.
    pub spec: ToolSpec,
    /// What its runs may do, in a project: where that matters, it is the careful case.
    pub traits: ToolTraits,
    /// Where it comes from.
    pub origin: ToolOrigin,
    /// Calls wait for somebody's approval.
    pub needs_approval: bool,
}

/// What one call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// `{"success","data","error","execution_time"}`, a JSON text.
    pub content: String,
    /// The call was not run.
    pub skipped: bool,
    /// What was cut of the result, where the job has a way to read it.
    pub whole: Option<FullResult>,
}

/// The texts of a result that were too long for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullResult {
    /// What the model was told to name it by.
    pub handle: ResultHandle,
    /// The text, at most `limits.tool_result_bytes` and a marker.
    pub content: String,
}

/// Where the executor reports, from the threads that run the tools.
pub trait Journal: Sync {
    /// Called before a call that is not idempotent runs, and for no other: what is on record here is not run again. It
    /// runs only after this returned `Continue`.
    fn started(&self, call: &ToolCall) -> ControlFlow<()>;
    /// Called as soon as a call has its outcome.
    fn finished(&self, call: &ToolCall, outcome: ToolOutcome);
    /// Called while a call runs, by tools that ask models of their own.
    fn stepped(&self, _call: &ToolCall, _step: AgentStep) {}
    /// Called while a call runs, when it has spent tokens.
    fn spent(&self, _call: &ToolCall, _model: &str, _usage: Usage) {}
    /// Whether it keeps what was cut of a result. If not, nobody is told how to read it.
    fn keeps_full_result(&self) -> bool {
        true
    }
}

/// Why a call has its outcome without having run, or without that anybody saw it end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnexecutedReason {
    /// Somebody, or the job's terms, did not approve of it.
    Denied,
    /// It was under way when the server ended.
    Interrupted,
}

impl UnexecutedReason {
    /// For the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
        }
    }
}

/// All tools together, as the engine sees them.
pub trait Toolbox: Send + Sync {
    /// What a job with this choice offers to its model, in stable order. What reads whole results is offered once there
    /// is one (`has_results`), or where the choice names it: small models mix its parameters into other calls.
    fn offered(&self, choice: &ToolChoice, has_results: bool) -> Vec<ToolDefinition>;
    /// Whether there is a tool of this name, or one that has it as an alias.
    fn has_tool(&self, name: &str) -> bool;
    /// Whether a call of this name waits for somebody's approval; an unknown tool may be there when the call is made.
    fn needs_approval(&self, _name: &str) -> bool {
        false
    }
    /// What the call sets going beyond its own job; an unknown tool nothing.
    fn reach(&self, _name: &str) -> ToolReach {
        ToolReach::Here
    }
    /// All tools, for people, in stable order.
    fn tool_infos(&self) -> Vec<ToolInfo> {
        Vec::new()
    }
    /// Makes the calls, several at once, and reports each. Returns when all are reported; a call that the cancel
    /// cut off is reported as such.
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal);
    /// Told of a call that has this outcome and will not be run: before that is on record, so that it may come twice.
    fn settled(&self, _call: &ToolCall, _context: &ToolContext, _why: UnexecutedReason, _told: &str) {}
}
