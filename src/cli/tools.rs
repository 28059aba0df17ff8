//! `nanoclaw tools`: what models may call, and a call by hand, whether the server runs or not. Owns the arguments and the
//! list; the call is the server's own, audit included.

use super::error::CliError;
use super::jobs::path_segment;
use super::office::{self, Place, text};
use super::terminal::Terminal;
use crate::app::system::SystemEntropy;
use crate::app::{Workbench, workbench};
use crate::config::Config;
use crate::domain::id::{IdGenerator, JobId, ProjectId, UserId};
use crate::http::{OperatorToolCall, ToolResponse};
use crate::ports::{CancelToken, Clock, Entropy};
use serde_json::{Map, Value};
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Where to look.
const PROJECTS: &str = "a project's id looks like proj_…; GET /api/projects lists them";

/// What `tools` was asked.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct ToolsArgs {
    /// Print them as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<ToolsCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum ToolsCommand {
    /// Call a tool and print its result as JSON; the code is 1 when the tool failed
    Call(CallArgs),
}

#[derive(Debug, clap::Args)]
struct CallArgs {
    /// The tool
    name: String,
    /// Its arguments, a JSON object; '-' reads them from stdin
    arguments: String,
    /// The project that it works in
    #[arg(long, value_name = "ID")]
    project: Option<String>,
    /// Taken for consistency: the result is JSON in any case
    #[arg(long, hide = true)]
    json: bool,
}

/// Does it.
pub(super) fn tools(
    config: &Config,
    clock: &Arc<dyn Clock>,
    args: &ToolsArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    match &args.command {
        None => list(config, clock, args.json, terminal).map(|()| ExitCode::SUCCESS),
        Some(ToolsCommand::Call(args)) => call(config, clock, args, terminal),
    }
}

fn list(config: &Config, clock: &Arc<dyn Clock>, json: bool, terminal: &Terminal) -> Result<(), CliError> {
    let tools = match office::place(config, clock)? {
        Place::Here(store) => {
            let infos = workbench(config, &store, clock).map_err(said)?.toolbox.tool_infos();
            let shown = infos.into_iter().map(|info| serde_json::to_value(ToolResponse::of(info)));
            shown.collect::<Result<Vec<Value>, _>>().map_err(said)?
        }
        Place::There(client) => {
            let page = client.get("/v1/tools")?;
            page.get("data").and_then(Value::as_array).cloned().unwrap_or_default()
        }
    };
    if json {
        return Ok(terminal.line(&Value::from(tools).to_string())?);
    }
    for tool in &tools {
        terminal.line(&describe(tool))?;
    }
    Ok(())
}

/// A tool on one line.
fn describe(tool: &Value) -> String {
    let kind = tool.pointer("/origin/kind").and_then(Value::as_str).unwrap_or_default();
    let waits = tool.get("needs_approval").and_then(Value::as_bool).unwrap_or_default();
    let waits = if waits { "  needs approval" } else { "" };
    let description = text(tool, "description").lines().next().unwrap_or_default();
    let first = description.split_inclusive(". ").next().unwrap_or_default().trim_end();
    format!("{:<24} {kind:<11} {first}{waits}", text(tool, "name"))
}

fn call(
    config: &Config,
    clock: &Arc<dyn Clock>,
    args: &CallArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    // Before the store is opened: a command line that makes no sense needs none.
    let arguments = arguments(args, config.limits.tool_arguments_bytes)?;
    let project = args.project.as_deref().map(project).transpose()?;
    let result = match office::place(config, clock)? {
        Place::Here(store) => {
            let bench = workbench(config, &store, clock).map_err(said)?;
            let trial = trial(config, clock, &bench, project)?;
            trial.call(bench.toolbox.as_ref(), &args.name, arguments)
        }
        Place::There(client) => {
            let asked = project.map_or_else(String::new, |id| format!("?project_id={id}"));
            let path = format!("/v1/tools/{}/call{asked}", path_segment(&args.name)?);
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
    bench: &Workbench,
    project: Option<ProjectId>,
) -> Result<OperatorToolCall, CliError> {
    let user = UserId::SINGLE;
    let at = |id: ProjectId| -> Result<(ProjectId, PathBuf), CliError> {
        let found = bench.workplaces.project_directory(user, id).map_err(said)?;
        Ok((id, found.ok_or_else(|| CliError::failed("there is no such project").hint(PROJECTS))?))
    };
    Ok(OperatorToolCall {
        user,
        job: JobId::from_bits(IdGenerator::default().mint(clock.now_ms(), SystemEntropy.random())),
        project: project.map(at).transpose()?,
        model: config.default_model.clone(),
        time: Duration::from_secs(config.limits.job_timeout_s),
        cancel: CancelToken::new(Arc::clone(clock)),
    })
}

fn project(text: &str) -> Result<ProjectId, CliError> {
    text.parse().map_err(|_| CliError::usage(format!("'{text}' is no project's id")).hint(PROJECTS))
}

fn arguments(args: &CallArgs, most_bytes: usize) -> Result<Map<String, Value>, CliError> {
    let text = if args.arguments == "-" { stdin(most_bytes)? } else { args.arguments.clone() };
    let hint = "write a JSON object, as in: nanoclaw tools call calculator '{\"expression\": \"6*7\"}'";
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(CliError::usage("the arguments are no JSON object").hint(hint)),
        Err(error) => Err(CliError::usage(format!("the arguments are no JSON: {error}")).hint(hint)),
    }
}

fn stdin(most_bytes: usize) -> Result<String, CliError> {
    let most = u64::try_from(most_bytes).unwrap_or(u64::MAX);
    let mut text = String::new();
    let read = std::io::stdin().lock().take(most.saturating_add(1)).read_to_string(&mut text);
    read.map_err(|error| {
        CliError::failed(format!("cannot read the arguments: {error}"))
            .hint("they are UTF-8 text, a JSON object")
    })?;
    if text.len() > most_bytes {
        let message =
            format!("the arguments are longer than {most_bytes} bytes (limits.tool_arguments_bytes)");
        return Err(CliError::usage(message).hint("put the bulk into a file of the project and name it"));
    }
    Ok(text)
}

fn said(error: impl std::fmt::Display) -> CliError {
    CliError::failed(error.to_string())
}
