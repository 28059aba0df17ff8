//! `spawn`: starts a background job in the same conversation. Background jobs cannot start others.

use super::builtin_tool::{ACTS, BuiltinTool, spec, trimmed};
use super::submit_job::{caller, rejected, rights_without_submission};
use crate::domain::id::JobId;
use crate::domain::job::Job;
use crate::domain::tool::{ToolReach, ToolTraits};
use crate::ports::{BackgroundTask, Tool, ToolContext, ToolError};
use crate::tools::registry::{AgentServices, ToolDeps};
use serde::Deserialize;
use serde_json::{Value, json};

const LABEL_CHARS: usize = 64;

#[derive(Deserialize)]
struct SpawnArguments {
    task: Option<String>,
    label: Option<String>,
    #[serde(default)]
    action: SpawnAction,
    job_id: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SpawnAction {
    #[default]
    Start,
    List,
    Cancel,
}

struct SpawnTool {
    agents: AgentServices,
    max_task_bytes: usize,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "spawn",
        "Start a background job for a long task; do not wait for it. It knows only the task; its answer comes into this \
         conversation. 'list' shows unfinished jobs, 'cancel' needs job_id.",
        json!({
            "task": {"type": "string", "minLength": 1, "description": "All that it has to know and do"},
            "label": {"type": "string", "minLength": 1, "maxLength": LABEL_CHARS},
            "action": {"type": "string", "enum": ["start", "list", "cancel"], "default": "start"},
            "job_id": {"type": "string"},
        }),
        &[],
    );
    let tool = SpawnTool { agents: deps.agents.clone(), max_task_bytes: deps.options.limits.input_bytes };
    let run = move |arguments: SpawnArguments, context: &ToolContext| match arguments.action {
        SpawnAction::Start => tool.start(&arguments, context),
        SpawnAction::List => tool.list(context),
        SpawnAction::Cancel => tool.cancel(trimmed(arguments.job_id.as_deref()), context),
    };
    // Idempotent: the job's id is computed from the call.
    let traits = ToolTraits { idempotent: true, ..ACTS };
    Box::new(BuiltinTool { reach: ToolReach::HandsIn, ..BuiltinTool::new(spec, traits, run) })
}

impl SpawnTool {
    fn start(&self, arguments: &SpawnArguments, context: &ToolContext) -> Result<Value, ToolError> {
        if !context.origin.is_client() {
            let message = "Background jobs and jobs of schedules cannot begin others; do the task yourself";
            return Err(ToolError::failed(message));
        }
        let task = trimmed(arguments.task.as_deref()).ok_or_else(|| {
            let message = "'task' is missing: say all that the job has to know and do. A valid call: {\"task\": \"<what to do>\"}";
            ToolError::Invalid(message.to_owned())
        })?;
        if task.len() > self.max_task_bytes {
            let max_bytes = self.max_task_bytes;
            let message = format!("'task' has more than {max_bytes} bytes (limits.input_bytes): shorten it");
            return Err(ToolError::Invalid(message));
        }
        let label = one_line(trimmed(arguments.label.as_deref()).unwrap_or(task));
        let rights = rights_without_submission(&self.agents, context)?;
        let rights = context.terms.budget.left_of(rights);
        let task = BackgroundTask { task: task.to_owned(), label: label.clone(), rights };
        let job = self.agents.jobs.spawn(&caller(context), task).map_err(|error| rejected(&error))?;
        Ok(json!({"job_id": job.id.to_string(), "label": label, "status": job.status.as_str()}))
    }

    fn list(&self, context: &ToolContext) -> Result<Value, ToolError> {
        let jobs = self.agents.jobs.spawned(&caller(context)).map_err(|error| rejected(&error))?;
        Ok(json!({"jobs": jobs.iter().map(job_json).collect::<Vec<_>>(), "total": jobs.len()}))
    }

    fn cancel(&self, id: Option<&str>, context: &ToolContext) -> Result<Value, ToolError> {
        let id = id.ok_or_else(|| {
            let message = "'job_id' is missing: action 'list' tells the ids of the unfinished jobs. A valid call: \
                           {\"action\": \"cancel\", \"job_id\": \"<id>\"}";
            ToolError::Invalid(message.to_owned())
        })?;
        let cancelled = match id.parse::<JobId>() {
            Ok(job) => self.agents.jobs.cancel(&caller(context), job).map_err(|error| rejected(&error))?,
            Err(_) => None,
        };
        let quoted: String = id.chars().take(64).collect();
        cancelled.as_ref().map(job_json).ok_or_else(|| {
            ToolError::failed(format!(
                "There is no background job '{quoted}'; action 'list' tells those that are unfinished"
            ))
        })
    }
}

fn job_json(job: &Job) -> Value {
    let is_cancelling = job.cancel_requested && !job.status.is_terminal();
    json!({
        "job_id": job.id.to_string(),
        "label": job.metadata.get("label"),
        "status": if is_cancelling { "cancelling" } else { job.status.as_str() },
    })
}

/// The beginning of a text, on one line.
fn one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().filter(|c| !c.is_control()).take(LABEL_CHARS).collect()
}
