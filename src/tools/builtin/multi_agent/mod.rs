//! `multi_agent`: sub-agents that work in parallel for one call, each with its own messages, limits and
//! tools. They cannot start agents themselves.

mod agent;
mod options;
mod reporter;

pub use options::SubAgentOptions;

use crate::tools::parallel;
use crate::tools::registry::{AgentServices, ToolDeps};
use crate::domain::event::AgentStep;
use crate::domain::nearest::hint;
use crate::domain::tool::{ToolDefinition, ToolReach, ToolChoice, ToolSpec, ToolTraits};
use crate::domain::usage::Usage;
use crate::ports::{ProgressReporter, Tool, ToolContext, ToolError, Toolbox};
use agent::{SubAgent, SubAgentResult, AgentEnvironment};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Weak;
use std::time::Duration;

/// Agents of one call.
const MOST: usize = 5;

struct MultiAgent {
    agents: AgentServices,
    options: SubAgentOptions,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(MultiAgent { agents: deps.agents.clone(), options: deps.options.sub_agent })
}

/// One task, as the model writes it.
#[derive(Debug, Deserialize)]
struct AgentTask {
    name: String,
    instruction: String,
    #[serde(default)]
    tools: Option<Vec<String>>,
}

/// Tells nobody.
struct SilentReporter;

impl ProgressReporter for SilentReporter {
    fn step(&self, _: AgentStep) {}
    fn spent(&self, _: &str, _: Usage) {}
}

impl Tool for MultiAgent {
    fn spec(&self) -> ToolSpec {
        let SubAgentOptions { max_iterations, timeout_s, .. } = self.options;
        ToolSpec {
            name: "multi_agent".into(),
            description: format!(
                "Give parts of a task to up to {MOST} agents that work at the same time. They are the same model as you, know \
                 nothing but their instruction, and cannot start agents, background jobs or schedules, nor send messages. Each \
                 has {max_iterations} turns and {timeout_s} s. Use it for parts that do not need each other's results."
            )
            .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "tasks": {
                        "type": "array", "minItems": 1, "maxItems": MOST,
                        "description": "What each agent does",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string", "minLength": 1, "maxLength": 64, "description": "Names the agent in the results"},
                                "instruction": {
                                    "type": "string", "minLength": 1,
                                    "description": "All that the agent has to know: it sees nothing of this conversation",
                                },
                                "tools": {
                                    "type": "array", "items": {"type": "string"},
                                    "description": "Names of the tools that it may call; all that you have, when left out",
                                },
                            },
                            "required": ["name", "instruction"],
                            "additionalProperties": false,
                        },
                    },
                },
                "required": ["tasks"],
                "additionalProperties": false,
            }),
        }
    }

    /// What its agents run may do anything.
    fn traits(&self) -> ToolTraits {
        ToolTraits::default()
    }

    fn reach(&self) -> ToolReach {
        ToolReach::Agents
    }

    /// As many waves as it takes.
    fn own_timeout(&self, arguments: &Map<String, Value>) -> Duration {
        let tasks = arguments.get("tasks").and_then(Value::as_array).map_or(0, Vec::len);
        let waves = tasks.div_ceil(self.options.max_concurrency.max(1));
        Duration::from_secs(self.options.timeout_s).saturating_mul(u32::try_from(waves).unwrap_or(u32::MAX))
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        self.call_with_progress(arguments, context, &SilentReporter)
    }

    fn call_with_progress(
        &self,
        arguments: &Map<String, Value>,
        context: &ToolContext,
        report: &dyn ProgressReporter,
    ) -> Result<Value, ToolError> {
        let toolbox = self.agents.toolbox.get().and_then(Weak::upgrade);
        let toolbox =
            toolbox.ok_or_else(|| ToolError::failed("The server is shutting down: there are no tools any more"))?;
        let tasks = arguments.get("tasks").cloned().unwrap_or_default();
        let tasks: Vec<AgentTask> = serde_json::from_value(tasks)
            .map_err(|error| ToolError::Invalid(format!("'tasks' cannot be read: {error}")))?;
        if !(1..=MOST).contains(&tasks.len()) {
            return Err(ToolError::Invalid(format!(
                "'tasks' must hold 1 to {MOST} tasks, not {}",
                tasks.len()
            )));
        }
        let names = unique(&tasks);
        let tools = tasks.iter().enumerate().map(|(at, task)| tools_of(at, task, toolbox.as_ref(), context));
        let tools = tools.collect::<Result<Vec<_>, _>>()?;
        let (model, options) = (self.agents.model.as_ref(), self.options);
        let bench = AgentEnvironment { model, toolbox: toolbox.as_ref(), options, context, report };
        let agents: Vec<_> = names.iter().zip(&tasks).zip(tools).collect();
        let results = parallel::map("agent", options.max_concurrency, &agents, |at, ((name, task), tools)| {
            let answer = SubAgent::new(&bench, (at, name), tools.clone()).run(&task.instruction);
            (answer.result.is_ok(), shown(name, answer))
        });
        let has_answer = results.iter().any(|(is_ok, _)| *is_ok);
        let shown: Vec<Value> = results.into_iter().map(|(_, shown)| shown).collect();
        let data = json!({"results": shown, "total": tasks.len()});
        if has_answer {
            return Ok(data);
        }
        let message = "No agent has answered: each result says why".to_owned();
        Err(ToolError::Failed { message, data })
    }
}


/// A name that comes again is numbered.
fn unique(tasks: &[AgentTask]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let numbered = (2..).map(|n| format!("{} ({n})", task.name));
        let mut free = std::iter::once(task.name.clone()).chain(numbered);
        names.extend(free.find(|name| !names.contains(name)));
    }
    names
}

/// What an agent may call: what its task names, as far as the job may call it and nobody has to approve it.
fn tools_of(
    at: usize,
    task: &AgentTask,
    toolbox: &dyn Toolbox,
    context: &ToolContext,
) -> Result<Vec<ToolDefinition>, ToolError> {
    let mut tools = toolbox.offered(&context.allowed, false);
    // They neither start others, nor hand in work, nor speak to people.
    tools.retain(|tool| toolbox.reach(&tool.name) == ToolReach::Here && !toolbox.needs_approval(&tool.name));
    let Some(wanted) = &task.tools else { return Ok(tools) };
    if let Some(unknown) = wanted.iter().find(|name| !toolbox.has_tool(name)) {
        let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let meant = hint(unknown, known.iter().copied());
        let shown: String = unknown.chars().take(64).collect();
        return Err(ToolError::Invalid(format!(
            "tasks[{at}].tools: there is no tool '{shown}'{meant}. Agents can have: {}",
            known.join(", ")
        )));
    }
    // By whichever of its names.
    let named = toolbox.offered(&ToolChoice::Named(wanted.clone()), false);
    tools.retain(|tool| named.iter().any(|wanted| wanted.name == tool.name));
    Ok(tools)
}

fn shown(name: &str, answer: SubAgentResult) -> Value {
    let SubAgentResult { result, iterations, usage } = answer;
    let mut shown = json!({"task_name": name, "success": result.is_ok()});
    if let Value::Object(fields) = &mut shown {
        match result {
            Ok(response) => fields.insert("response".to_owned(), Value::from(response)),
            Err(error) => fields.insert("error".to_owned(), Value::from(error)),
        };
        fields.insert("iterations".to_owned(), Value::from(iterations));
        fields.insert("usage".to_owned(), json!(usage));
    }
    shown
}

#[cfg(test)]
mod tests;
