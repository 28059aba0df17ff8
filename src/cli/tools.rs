//! `nanoclaw tools`: lists the tools, or calls one, whether the server runs or not. A call is audited as the
//! server would.

use super::admin::{self, StoreAccess, text};
use super::client::address::path_segment;
use super::error::CliError;
use super::store_target::StoreTarget;
use super::terminal::Terminal;
use crate::app::local_tools;
use crate::app::system::SystemEntropy;
use crate::config::Config;
use crate::domain::id::{IdGenerator, JobId, ProjectId, UserId};
use crate::http::{OperatorToolCall, ToolResponse};
use crate::ports::{ApprovedCalls, CancelToken, Clock, Entropy, Projects};
use serde_json::{Map, Value};
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const PROJECTS: &str = "project ids look like proj_…; GET /api/projects lists them";

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ToolsArgs {
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<ToolsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum ToolsCommand {
    /// List the tools, as without a command
    #[command(hide = true)]
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Call a tool and print its result as JSON; exit 1 if the tool fails
    Call(ToolCallArgs),
}

#[derive(Debug, clap::Args)]
struct ToolCallArgs {
    /// Name of the tool
    name: String,
    /// Arguments as a JSON object; '-' reads them from stdin
    arguments: String,
    /// Project to work in
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Accepted for consistency: the result is always JSON
    #[arg(long, hide = true)]
    json: bool,
}

pub(super) fn tools(
    target: &StoreTarget,
    config: &Config,
    clock: &Arc<dyn Clock>,
    args: &ToolsArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    match &args.command {
        None => list(target, config, clock, args.json, terminal).map(|()| ExitCode::SUCCESS),
        Some(ToolsCommand::List { json }) => {
            list(target, config, clock, *json, terminal).map(|()| ExitCode::SUCCESS)
        }
        Some(ToolsCommand::Call(args)) => call(target, config, clock, args, terminal),
    }
}

fn list(
    target: &StoreTarget,
    config: &Config,
    clock: &Arc<dyn Clock>,
    json: bool,
    terminal: &Terminal,
) -> Result<(), CliError> {
    let tools = match admin::access(target, config, clock)? {
        StoreAccess::Local(store) => {
            let infos = local_tools(config, &store, clock).map_err(failed)?.tool_infos();
            let responses = infos.into_iter().map(|info| serde_json::to_value(ToolResponse::of(info)));
            responses.collect::<Result<Vec<Value>, _>>().map_err(failed)?
        }
        StoreAccess::Remote(client) => {
            let page = client.get("/v1/tools")?;
            page.get("data").and_then(Value::as_array).cloned().unwrap_or_default()
        }
    };
    Ok(terminal.list(tools, json, describe)?)
}

/// One line about a tool.
fn describe(tool: &Value) -> String {
    let kind = tool.pointer("/origin/kind").and_then(Value::as_str).unwrap_or_default();
    let approval_note = tool.get("needs_approval").and_then(Value::as_bool).unwrap_or_default();
    let approval_note = if approval_note { "  needs approval" } else { "" };
    let description = text(tool, "description").lines().next().unwrap_or_default();
    let first_sentence = description.split_inclusive(". ").next().unwrap_or_default().trim_end();
    format!("{:<24} {kind:<11} {first_sentence}{approval_note}", text(tool, "name"))
}

fn call(
    target: &StoreTarget,
    config: &Config,
    clock: &Arc<dyn Clock>,
    args: &ToolCallArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    // Invalid arguments are refused before the store is opened.
    let arguments = arguments(args, config.limits.tool_arguments_bytes)?;
    let project = args.project.as_deref().map(project).transpose()?;
    let result = match admin::access(target, config, clock)? {
        StoreAccess::Local(store) => {
            let toolbox = local_tools(config, &store, clock).map_err(failed)?;
            let trial = trial(config, clock, store.as_ref(), project)?;
            trial.call(toolbox.as_ref(), &args.name, arguments)
        }
        StoreAccess::Remote(client) => {
            let query = project.map_or_else(String::new, |id| format!("?project_id={id}"));
            let path = format!("/v1/tools/{}/call{query}", path_segment(&args.name)?);
            client.post(&path, Some(&arguments.into()))?
        }
    };
    terminal.line(&result.to_string())?;
    let is_good = result.get("success").and_then(Value::as_bool) == Some(true);
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn trial(
    config: &Config,
    clock: &Arc<dyn Clock>,
    projects: &dyn Projects,
    project: Option<ProjectId>,
) -> Result<OperatorToolCall, CliError> {
    let user = UserId::SINGLE;
    let own_project = |id: ProjectId| -> Result<ProjectId, CliError> {
        let found = projects.project(user, id).map_err(failed)?;
        Ok(found.ok_or_else(|| CliError::failed("there is no such project").hint(PROJECTS))?.id)
    };
    Ok(OperatorToolCall {
        user,
        job: JobId::from_bits(IdGenerator::default().mint(clock.now_ms(), SystemEntropy.random())),
        project: project.map(own_project).transpose()?,
        model: config.default_model.clone(),
        time: Duration::from_secs(config.limits.job_timeout_s),
        approved: ApprovedCalls::All,
        cancel: CancelToken::new(Arc::clone(clock)),
    })
}

fn project(text: &str) -> Result<ProjectId, CliError> {
    text.parse().map_err(|_| CliError::usage(format!("'{text}' is not a project id")).hint(PROJECTS))
}

fn arguments(args: &ToolCallArgs, max_bytes: usize) -> Result<Map<String, Value>, CliError> {
    let text = if args.arguments == "-" { stdin(max_bytes)? } else { args.arguments.clone() };
    let hint = "write a JSON object, as in: nanoclaw tools call calculator '{\"expression\": \"6*7\"}'";
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(CliError::usage("the arguments are not a JSON object").hint(hint)),
        Err(error) => Err(CliError::usage(format!("the arguments are not JSON: {error}")).hint(hint)),
    }
}

fn stdin(max_bytes: usize) -> Result<String, CliError> {
    let max = u64::try_from(max_bytes).unwrap_or(u64::MAX);
    let mut text = String::new();
    let read = std::io::stdin().lock().take(max.saturating_add(1)).read_to_string(&mut text);
    read.map_err(|error| {
        CliError::failed(format!("cannot read the arguments: {error}"))
            .hint("they are UTF-8 text, a JSON object")
    })?;
    if text.len() > max_bytes {
        let message =
            format!("the arguments are longer than {max_bytes} bytes (limits.tool_arguments_bytes)");
        return Err(CliError::usage(message).hint("put the bulk into a file of the project and name it"));
    }
    Ok(text)
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::failed(error.to_string())
}
