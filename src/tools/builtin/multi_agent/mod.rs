//! `multi_agent`: sub-agents that work in parallel for one call, each with its own messages, limits and
//! tools. They cannot start agents themselves.

mod agent;
mod options;
mod reporter;

pub use options::SubAgentOptions;

use super::builtin_tool::{spec, typed};
use super::names;
use crate::domain::call_times::{AgentModelCall, CallTimes};
use crate::domain::event::AgentStep;
use crate::domain::nearest::hint;
use crate::domain::tool::{Aliases, ToolChoice, ToolDefinition, ToolGroup, ToolReach, ToolSpec, ToolTraits};
use crate::domain::usage::Usage;
use crate::ports::{ProgressReporter, Tool, ToolContext, ToolError, ToolOffer, ToolScope, Toolbox};
use crate::tools::parallel;
use crate::tools::registry::{AgentServices, ToolDeps};
use agent::{AgentEnvironment, SubAgent, SubAgentResult};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Weak;
use std::time::Duration;

/// Agents of one call.
const MAX_TASKS: usize = 5;

struct MultiAgent {
    agents: AgentServices,
    options: SubAgentOptions,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(MultiAgent { agents: deps.agents.clone(), options: deps.options.sub_agent })
}

#[derive(Deserialize)]
struct AgentArguments {
    tasks: Vec<AgentTask>,
}

#[derive(Debug, Deserialize)]
struct AgentTask {
    name: String,
    instruction: String,
    tools: Option<Vec<String>>,
}

/// Drops all progress.
struct SilentReporter;

impl ProgressReporter for SilentReporter {
    fn step(&self, _: AgentStep, _: Option<CallTimes>) {}
    fn spent(&self, _: &str, _: Usage, _: Option<AgentModelCall>) {}
}

impl Tool for MultiAgent {
    fn aliases(&self) -> Aliases {
        names::aliases("multi_agent")
    }

    fn group(&self) -> Option<ToolGroup> {
        names::group("multi_agent")
    }

    fn offer(&self) -> ToolOffer {
        names::offer("multi_agent")
    }

    fn spec(&self) -> ToolSpec {
        let SubAgentOptions { max_iterations, timeout_s, .. } = self.options;
        let description = format!(
            "Give independent parts of a task to up to {MAX_TASKS} agents that work at the same time. They know only their \
             instruction and have {max_iterations} turns and {timeout_s} s each."
        );
        let task = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 64},
                "instruction": {"type": "string", "minLength": 1},
                "tools": {
                    "type": "array", "items": {"type": "string"},
                    "description": "Default: yours",
                },
            },
            "required": ["name", "instruction"],
            "additionalProperties": false,
        });
        let tasks = json!({
            "type": "array", "minItems": 1, "maxItems": MAX_TASKS, "items": task,
        });
        spec("multi_agent", description, json!({"tasks": tasks}), &["tasks"])
    }

    /// Its agents may run any tool.
    fn traits(&self) -> ToolTraits {
        ToolTraits::default()
    }

    fn reach(&self) -> ToolReach {
        ToolReach::Agents
    }

    fn own_timeout(&self, arguments: &Map<String, Value>) -> Duration {
        let tasks = arguments.get("tasks").and_then(Value::as_array).map_or(0, Vec::len);
        let rounds = tasks.div_ceil(self.options.max_concurrency.max(1));
        Duration::from_secs(self.options.timeout_s).saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
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
        let toolbox = toolbox
            .ok_or_else(|| ToolError::failed("The server is shutting down: there are no tools any more"))?;
        let AgentArguments { tasks } = typed(arguments)?;
        if !(1..=MAX_TASKS).contains(&tasks.len()) {
            let message = format!("'tasks' must hold 1 to {MAX_TASKS} tasks, not {}", tasks.len());
            return Err(ToolError::Invalid(message));
        }
        let names = unique_names(&tasks);
        let tools = tasks.iter().enumerate().map(|(at, task)| tools_for(at, task, toolbox.as_ref(), context));
        let tools = tools.collect::<Result<Vec<_>, _>>()?;
        let (model, options) = (self.agents.model.as_ref(), self.options.within(&context.rights));
        let environment = AgentEnvironment { model, toolbox: toolbox.as_ref(), options, context, report };
        let agents: Vec<_> = names.iter().zip(&tasks).zip(tools).collect();
        let results =
            parallel::map("agent", options.max_concurrency, &agents, |at, ((name, task), tools)| {
                let agent_result =
                    SubAgent::new(&environment, (at, name), tools.clone()).run(&task.instruction);
                (agent_result.result.is_ok(), result_json(name, agent_result))
            });
        let has_answer = results.iter().any(|(is_ok, _)| *is_ok);
        let result: Vec<Value> = results.into_iter().map(|(_, result)| result).collect();
        let data = json!({"results": result, "total": tasks.len()});
        if has_answer {
            return Ok(data);
        }
        let message = "No agent has answered: each result says why".to_owned();
        Err(ToolError::Failed { message, data })
    }
}

/// The names of the agents; repeated ones are numbered.
fn unique_names(tasks: &[AgentTask]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(tasks.len());
    for task in tasks {
        let numbered = (2..).map(|n| format!("{} ({n})", task.name));
        let mut candidates = std::iter::once(task.name.clone()).chain(numbered);
        names.extend(candidates.find(|name| !names.contains(name)));
    }
    names
}

/// The tools of an agent: those that its task names, if the job may call them and they need no approval.
fn tools_for(
    at: usize,
    task: &AgentTask,
    toolbox: &dyn Toolbox,
    context: &ToolContext,
) -> Result<Vec<ToolDefinition>, ToolError> {
    let mut tools = toolbox.offered(&context.scope());
    let needs_approval = |name: &str| toolbox.needs_approval(name, &context.rights.approval_tools);
    // Agents start no agents, submit no jobs and send no messages.
    tools.retain(|tool| toolbox.reach(&tool.name) == ToolReach::Here && !needs_approval(&tool.name));
    let Some(requested) = &task.tools else { return Ok(tools) };
    let is_known = |name: &str| toolbox.has_tool(name) || ToolChoice::is_group(name);
    if let Some(unknown) = requested.iter().find(|name| !is_known(name)) {
        let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        let suggestion = hint(unknown, known.iter().copied());
        let quoted: String = unknown.chars().take(64).collect();
        return Err(ToolError::Invalid(format!(
            "tasks[{at}].tools: there is no tool '{quoted}'{suggestion}. Agents can have: {}",
            known.join(", ")
        )));
    }
    if let Some(guarded) = requested.iter().find(|name| !ToolChoice::is_group(name) && needs_approval(name)) {
        return Err(ToolError::Invalid(format!(
            "tasks[{at}].tools: '{guarded}' needs approval, and agents cannot ask for it: leave it out here, and call it directly"
        )));
    }
    // A task may use the aliases of a tool.
    let choice = ToolChoice::Named(requested.clone());
    let requested_tools = toolbox.offered(&ToolScope { choice: &choice, ..context.scope() });
    tools.retain(|tool| requested_tools.iter().any(|requested| requested.name == tool.name));
    Ok(tools)
}

fn result_json(name: &str, agent_result: SubAgentResult) -> Value {
    let SubAgentResult { result, iterations, usage } = agent_result;
    let (is_ok, field, text) = match result {
        Ok(response) => (true, "response", response),
        Err(error) => (false, "error", error),
    };
    json!({"task_name": name, "success": is_ok, field: text, "iterations": iterations, "usage": usage})
}

#[cfg(test)]
mod tests;
