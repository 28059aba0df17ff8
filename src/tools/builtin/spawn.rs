//! `spawn`: starts a background job in the same conversation. Background jobs cannot start others.

use super::submit_job::{caller, refused, without_handing_in};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::tool::{FileAccess, ToolReach, ToolSpec, ToolTraits};
use crate::ports::{BackgroundTask, Tool, ToolContext, ToolError};
use crate::tools::registry::{AgentServices, ToolDeps};
use serde_json::{Map, Value, json};

/// The longest label, characters.
const LABEL_CHARS: usize = 64;

struct SpawnTool {
    agents: AgentServices,
    /// Of a task, bytes.
    task_bytes: usize,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(SpawnTool { agents: deps.agents.clone(), task_bytes: deps.options.limits.input_bytes })
}

impl Tool for SpawnTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "spawn".into(),
            description: "Begin a background job for a task that takes long or that nobody has to wait for. It works on its own, \
                          beside this conversation, and knows nothing but the task; its answer comes into the conversation \
                          when it is there. Do not wait for it. Calls that need approval ask as they do here. action 'list' shows the unfinished ones, 'cancel' ends one."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "task": {"type": "string", "minLength": 1, "description": "All that the job has to know and do"},
                    "label": {"type": "string", "minLength": 1, "maxLength": LABEL_CHARS, "description": "A few words for the user"},
                    "action": {"type": "string", "enum": ["start", "list", "cancel"], "default": "start"},
                    "job_id": {"type": "string", "description": "Which job to cancel, job_…"},
                },
                "required": [],
                "additionalProperties": false,
            }),
        }
    }

    /// The same call is one job, however often it is made.
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: true, cacheable: false, files: FileAccess::None }
    }

    fn reach(&self) -> ToolReach {
        ToolReach::HandsIn
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let text =
            |name: &str| arguments.get(name).and_then(Value::as_str).map(str::trim).unwrap_or_default();
        match text("action") {
            "list" => self.list(context),
            "cancel" => self.cancel(text("job_id"), context),
            _ => self.start(text("task"), text("label"), context),
        }
    }
}

impl SpawnTool {
    fn start(&self, task: &str, label: &str, context: &ToolContext) -> Result<Value, ToolError> {
        if !context.origin.is_client() {
            let message = "Background jobs and jobs of schedules cannot begin others; do the task yourself";
            return Err(ToolError::failed(message));
        }
        if task.is_empty() {
            return Err(ToolError::Invalid(
                "'task' is missing: say all that the job has to know and do".into(),
            ));
        }
        if task.len() > self.task_bytes {
            return Err(ToolError::Invalid(format!(
                "'task' has more than {} bytes (limits.input_bytes): shorten it",
                self.task_bytes
            )));
        }
        let label = label_of(label, task);
        let tools = without_handing_in(&self.agents, context)?;
        let task = BackgroundTask { task: task.to_owned(), label: label.clone(), tools };
        let job = self.agents.jobs.spawn(&caller(context), task).map_err(|error| refused(&error))?;
        Ok(json!({"job_id": job.id.to_string(), "label": label, "status": job.status.as_str()}))
    }

    fn list(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let jobs = self.agents.jobs.spawned(&caller(context)).map_err(|error| refused(&error))?;
        let shown: Vec<Value> = jobs.iter().map(shown).collect();
        Ok(json!({"jobs": shown, "total": shown.len()}))
    }

    fn cancel(&self, id: &str, context: &ToolContext) -> Result<Value, ToolError> {
        if id.is_empty() {
            let message = "'job_id' is missing: action 'list' tells the ids of the unfinished jobs";
            return Err(ToolError::Invalid(message.to_owned()));
        }
        let found = match id.parse::<JobId>() {
            Ok(job) => self.agents.jobs.cancel(&caller(context), job).map_err(|error| refused(&error))?,
            Err(_) => None,
        };
        let quoted: String = id.chars().take(64).collect();
        let job = found.ok_or_else(|| {
            ToolError::failed(format!(
                "There is no background job '{quoted}'; action 'list' tells those that are unfinished"
            ))
        })?;
        Ok(shown(&job))
    }
}

fn shown(job: &Job) -> Value {
    json!({
        "job_id": job.id.to_string(),
        "label": job.metadata.get("label"),
        "status": if job.cancel_requested && !job.status.is_terminal() { "cancelling" } else { job.status.as_str() },
    })
}

/// The label on one line, or the first words of the task.
fn label_of(label: &str, task: &str) -> String {
    let from = if label.is_empty() { task } else { label };
    let line: String = from.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(LABEL_CHARS).collect()
}
