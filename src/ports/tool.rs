//! The tool port: one tool, and the toolbox as the engine sees it. The engine knows no tool by name (P6).

use super::budget::JobBudget;
use super::clock::CancelToken;
use super::files::WorkspaceOwner;
use super::seen_files::{SeenFile, SeenFiles};
use crate::domain::call_times::{AgentModelCall, CallTimes};
use crate::domain::event::AgentStep;
use crate::domain::handle::ResultHandle;
use crate::domain::id::{ConversationId, JobId, ProjectId, UserId};
use crate::domain::job::JobOrigin;
use crate::domain::job_rights::JobRights;
use crate::domain::secret::Redactor;
use crate::domain::tool::{
    Aliases, Strictness, ToolCall, ToolChoice, ToolDefinition, ToolGroup, ToolOrigin, ToolReach, ToolSpec,
    ToolTraits,
};
use crate::domain::usage::Usage;
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Owner and permissions of a call. Come from the job, never from the model.
#[derive(Clone)]
pub struct ToolContext {
    /// Owner of the job.
    pub user: UserId,
    /// The job.
    pub job: JobId,
    /// The job's conversation.
    pub conversation_id: Option<ConversationId>,
    /// The job's project. Its owner was checked when the job started.
    pub project_id: Option<ProjectId>,
    /// What the job may do; enforced at execution, and given to what the call starts.
    pub rights: JobRights,
    /// The versions of files that the job's model has seen.
    pub seen_files: SeenFiles,
    /// The job's model settings, for tools that call models themselves.
    pub terms: ModelParameters,
    /// Origin of the job.
    pub origin: JobOrigin,
    /// The operator calls the tool directly: there is no job.
    pub is_trial: bool,
    /// Id of this call as its result names it; the executor sets it. In the executor's input: id of the
    /// parent call, empty for a job's own calls.
    pub id_ref: String,
    /// Calls that may run although they need approval.
    pub approved: ApprovedCalls,
    /// Cancels the call.
    pub cancel: CancelToken,
}

impl ToolContext {
    /// Whether the call has files: those of the job's project, or the job's own.
    pub fn has_workspace(&self) -> bool {
        self.project_id.is_some() || !self.is_trial
    }

    /// What decides which tools the job is offered.
    pub fn scope(&self) -> ToolScope<'_> {
        let JobRights { tools, strictness, .. } = &self.rights;
        ToolScope { choice: tools, strictness: *strictness, has_results: false }
    }
}

impl From<&ToolContext> for WorkspaceOwner {
    fn from(context: &ToolContext) -> Self {
        let job = (!context.is_trial).then_some(context.job);
        Self { user: context.user, project: context.project_id, job }
    }
}

/// What decides which tools a job is offered.
#[derive(Debug, Clone, Copy)]
pub struct ToolScope<'a> {
    /// The job's tools, after [`Toolbox::resolve`].
    pub choice: &'a ToolChoice,
    /// The job's sandbox level.
    pub strictness: Option<Strictness>,
    /// Whether a result was shortened, so that a job can read more of it.
    pub has_results: bool,
}

impl ToolScope<'static> {
    /// Every tool, for people.
    pub const EVERY: Self = Self { choice: &ToolChoice::All(true), strictness: None, has_results: true };
}

/// Why a tool cannot work. The text is for models and people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unavailability {
    /// Not before the configuration changes.
    Always(String),
    /// Not in a job with these settings.
    InJob(String),
    /// Not now, perhaps later.
    Now(String),
}

impl Unavailability {
    /// The reason.
    pub fn reason(&self) -> &str {
        match self {
            Self::Always(reason) | Self::InJob(reason) | Self::Now(reason) => reason,
        }
    }
}

/// Calls that may run although they need approval. Decided before the tools are looked up, so that a tool
/// which changes in between does not run unapproved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovedCalls {
    /// All calls, because the operator makes them.
    All,
    /// The approved calls, by `id_ref`.
    Calls(Arc<[String]>),
    /// No call, because no user can decide.
    None,
}

impl ApprovedCalls {
    /// Whether this call may run.
    pub fn covers(&self, id_ref: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Calls(id_refs) => id_refs.iter().any(|approved| approved == id_ref),
        }
    }
}

/// Model settings of a job.
#[derive(Debug, Clone, Default)]
pub struct ModelParameters {
    /// The model that currently answers the job.
    pub model: String,
    /// 0.0 to 2.0.
    pub temperature: Option<f64>,
    /// Maximum tokens of one answer.
    pub max_tokens: Option<u32>,
    /// What is left of the job's limits, shared by calls that run in parallel.
    pub budget: JobBudget,
}

/// Why a tool has no result. The text is for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ToolError {
    /// The arguments are invalid.
    #[error("{0}")]
    Invalid(String),
    /// The call failed. `data` holds output to show, such as a traceback.
    #[error("{message}")]
    Failed {
        /// The reason.
        message: String,
        /// Output to show; `Null` for none.
        data: Value,
    },
}

impl ToolError {
    /// A failure without output to show.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into(), data: Value::Null }
    }

    /// The same error with the secrets masked.
    #[must_use]
    pub fn redacted(self, redactor: &Redactor) -> Self {
        match self {
            Self::Invalid(message) => Self::Invalid(redactor.redact(&message)),
            Self::Failed { message, data } => {
                Self::Failed { message: redactor.redact(&message), data: redactor.redact_value(data) }
            }
        }
    }
}

/// A tool: one file and one line in the registry (P6).
pub trait Tool: Send + Sync {
    /// The definition for models.
    fn spec(&self) -> ToolSpec;
    /// The definition for a job where it differs from [`Self::spec`]. Cheap: looked up before every model
    /// call.
    fn definition_in(&self, _scope: &ToolScope<'_>) -> Option<ToolDefinition> {
        None
    }
    /// Why a job cannot use the tool; `None` if it can. Cheap: looked up before every model call.
    fn unavailability(&self, _scope: &ToolScope<'_>) -> Option<Unavailability> {
        None
    }
    /// The group that it belongs to.
    fn group(&self) -> Option<ToolGroup> {
        match self.origin() {
            ToolOrigin::BuiltIn => None,
            ToolOrigin::JavaScript { .. } | ToolOrigin::Command => Some(ToolGroup::Custom),
            ToolOrigin::Mcp { .. } => Some(ToolGroup::Mcp),
        }
    }
    /// What models read before the instructions of each job that is offered the tool.
    fn instructions(&self, _owner: WorkspaceOwner) -> Option<String> {
        None
    }
    /// Which choices offer it.
    fn offer(&self) -> ToolOffer {
        ToolOffer::Default
    }
    /// How MCP clients of this server are offered it; `None`: they are not.
    fn mcp_offer(&self) -> Option<McpOffer> {
        None
    }
    /// The side effects that a call may have.
    fn traits(&self) -> ToolTraits;
    /// The side effects of one call, which may be fewer than [`Tool::traits`].
    fn traits_of(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> ToolTraits {
        self.traits()
    }
    /// Where the tool comes from.
    fn origin(&self) -> ToolOrigin {
        ToolOrigin::BuiltIn
    }
    /// Other names of the tool and its parameters.
    fn aliases(&self) -> Aliases {
        Aliases::default()
    }
    /// Further names that the operator may use in `approval:` patterns.
    fn approval_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Whether the tool reads full results of other tools. It is then offered with them, whether or not the
    /// job names it.
    fn reads_results(&self) -> bool {
        false
    }
    /// What a call starts outside its own job.
    fn reach(&self) -> ToolReach {
        ToolReach::Here
    }
    /// The sandbox level when it is the same for every call; otherwise results carry it as `strictness`.
    fn level(&self) -> Option<&'static str> {
        None
    }
    /// Time that a call with these arguments may take in addition to `limits.tool_timeout_s`. The tool
    /// enforces it.
    fn own_timeout(&self, _arguments: &Map<String, Value>) -> Duration {
        Duration::ZERO
    }
    /// Runs the tool with arguments that match the schema. Returns the `data` for the model.
    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError>;
    /// Runs the tool and reports progress.
    fn call_with_progress(
        &self,
        arguments: &Map<String, Value>,
        context: &ToolContext,
        _report: &dyn ProgressReporter,
    ) -> Result<Value, ToolError> {
        self.call(arguments, context)
    }
}

/// Which choices offer a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOffer {
    /// The built-in default set, and every wider one.
    Default,
    /// All tools, its group, or its name.
    Wide,
    /// Only its name.
    ByName,
}

/// Receives progress of a running tool, for the job's log.
pub trait ProgressReporter: Sync {
    /// A step of a sub-agent. `times`: of a tool result, when the tool ran.
    fn step(&self, step: AgentStep, times: Option<CallTimes>);
    /// Tokens that a sub-agent's model call used, or one of its tools.
    fn spent(&self, model: &str, usage: Usage, of_call: Option<AgentModelCall>);
}

/// Tools that may change while the server runs.
pub trait ToolSource: Send + Sync {
    /// A number that rises when [`ToolSource::tools`] changes. Cheap.
    fn version(&self) -> u64;
    /// The current tools, in stable order.
    fn tools(&self) -> Vec<Arc<dyn Tool>>;
    /// Which names its tools may have. Read before [`ToolSource::tools`].
    fn namespaces(&self) -> Vec<ToolNamespace> {
        Vec::new()
    }
    /// A sentence for each name in its part of the configuration that none of its tools has.
    fn unknown_names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Names that tools of a source may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNamespace {
    /// How all of them begin.
    pub beginning: String,
    /// Whether the source has listed its tools; before, none of them can be called.
    pub is_listed: bool,
}

/// How MCP clients of this server are offered a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpOffer {
    /// Its name there.
    pub name: &'static str,
    /// A short title for people.
    pub title: &'static str,
    /// What it does for a client that has no job.
    pub description: &'static str,
}

/// Public description of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// The definition for models.
    pub spec: ToolSpec,
    /// Side effects that a call may have.
    pub traits: ToolTraits,
    /// Where the tool comes from.
    pub origin: ToolOrigin,
    /// Whether calls need an approval.
    pub needs_approval: bool,
    /// The group that it belongs to.
    pub group: Option<ToolGroup>,
    /// Whether a job that names no tools is offered it.
    pub is_default: bool,
    /// How MCP clients are offered it; `None`: they are not.
    pub mcp: Option<McpOffer>,
    /// Why it cannot be used at present.
    pub unavailable: Option<String>,
}

/// Result of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome {
    /// JSON text: `{"success","data","error","execution_time"}`.
    pub content: String,
    /// Whether the call did not run.
    pub skipped: bool,
    /// The full result, when the model's copy was cut and the job can read the rest.
    pub full_result: Option<FullResult>,
}

/// A result that was too long for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullResult {
    /// Handle that the model uses to read it.
    pub handle: ResultHandle,
    /// The text, at most `limits.tool_result_bytes` plus a marker.
    pub content: String,
}

/// Receives the executor's reports, from the threads that run the tools.
pub trait Journal: Sync {
    /// Called before a call that is not idempotent runs, and for no other. The call runs only after this
    /// returned `Continue`; a recorded call is never run again.
    fn started(&self, call: &ToolCall) -> ControlFlow<()>;
    /// Called before [`Journal::finished`] if the model sees files through the call's result.
    fn saw_files(&self, _call: &ToolCall, _seen: Vec<SeenFile>) {}
    /// Called when a call has a result.
    fn finished(&self, call: &ToolCall, outcome: ToolOutcome);
    /// Called for each step of a sub-agent.
    fn stepped(&self, _call: &ToolCall, _step: AgentStep, _times: Option<CallTimes>) {}
    /// Called when a running call has used tokens; `_agent`: in this model call of a sub-agent.
    fn spent(&self, _call: &ToolCall, _model: &str, _usage: Usage, _agent: Option<AgentModelCall>) {}
    /// Whether full results are stored. If not, the model learns nothing about reading them.
    fn keeps_full_result(&self) -> bool {
        true
    }
}

/// Why a call has a result although it did not run to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnexecutedReason {
    /// The user or the job's settings denied it.
    Denied,
    /// It was running when the server ended.
    Interrupted,
}

impl UnexecutedReason {
    /// Name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Interrupted => "interrupted",
        }
    }
}

/// All tools, as the engine sees them.
pub trait Toolbox: Send + Sync {
    /// Definitions that a job offers, in stable order: only tools that can work now. The reader of full
    /// results is offered once there is one (`has_results`) or when the choice names it, because small models
    /// mix its parameters into other calls.
    fn offered(&self, scope: &ToolScope<'_>) -> Vec<ToolDefinition>;
    /// The names of the tools that a job offers, including those that only cannot work now.
    fn offered_names(&self, scope: &ToolScope<'_>) -> Vec<String> {
        self.offered(scope).iter().map(|tool| tool.name.to_string()).collect()
    }
    /// What the tools that a job is offered say to its model, in stable order. Looked up once, when the job
    /// begins to run.
    fn instructions(&self, _scope: &ToolScope<'_>, _owner: WorkspaceOwner) -> Vec<String> {
        Vec::new()
    }
    /// The choice with the configured default set in place, for a job of this model.
    fn resolve(&self, choice: &ToolChoice, _model: &str) -> ToolChoice {
        choice.clone()
    }
    /// Whether a tool has this name or alias.
    fn has_tool(&self, name: &str) -> bool;
    /// Whether the job's settings or the configuration refuse every call of this name.
    fn is_refused(&self, name: &str, scope: &ToolScope<'_>) -> bool {
        !scope.choice.offers_any()
            || (self.has_tool(name) && !self.offered(scope).iter().any(|tool| tool.name.as_ref() == name))
    }
    /// Why no job can use this tool; `None` if there is no tool of this name.
    fn never_works(&self, _name: &str) -> Option<String> {
        None
    }
    /// Whether a call of this tool needs an approval: because of the configuration, or because of these names
    /// ([`JobRights::approval_tools`]). An unknown tool may appear before the call runs.
    fn needs_approval(&self, _name: &str, _approval_tools: &[String]) -> bool {
        false
    }
    /// Whether a call of this tool is done within milliseconds and touches nothing: its record may be written
    /// together with its result.
    fn only_computes(&self, _name: &str) -> bool {
        false
    }
    /// What a call starts outside its own job; nothing for an unknown tool.
    fn reach(&self, _name: &str) -> ToolReach {
        ToolReach::Here
    }
    /// Why a value does not match a JSON Schema, for a model; `None` if it does, or if the schema cannot be
    /// used. With the validator of the tools' arguments.
    fn mismatch(&self, _schema: &Value, _value: &Value) -> Option<String> {
        None
    }
    /// All tools for people, in stable order.
    fn tool_infos(&self) -> Vec<ToolInfo> {
        Vec::new()
    }
    /// A sentence for each name in the configuration that no tool has.
    fn unknown_names(&self) -> Vec<String> {
        Vec::new()
    }
    /// Runs the calls in parallel and reports each. Returns when all are reported; cancelled calls are
    /// reported as such.
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal);
    /// Records the result of a call that will not run. Called before the result is durable, so it may be
    /// repeated.
    fn settled(&self, _call: &ToolCall, _context: &ToolContext, _why: UnexecutedReason, _told: &str) {}
}
