//! `nanoclaw mcp check`: connects to an MCP server and lists its tools, without our own server.

use crate::app::mcp_ports;
use crate::app::system::SystemClock;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::config::Config;
use crate::mcp::{
    McpCheckCalls, McpCheckError, McpServerOptions, McpServerReport, McpToolOutcome, McpToolReport, check,
};
use crate::ports::Clock;
use nanoclaw_sandbox::Sandbox;
use serde_json::{Map, Value, json};
use std::process::ExitCode;
use std::sync::Arc;

/// Name of a server that is given by its URL.
const UNNAMED: &str = "url";
/// Shown characters of the arguments of a call.
const ARGUMENTS_CHARS: usize = 120;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// A server of `mcp_servers`, or a URL (http://… or https://…)
    #[arg(value_name = "NAME|URL")]
    server: String,
    /// Call this tool, whatever it does, and no other; may be repeated
    #[arg(long, value_name = "TOOL")]
    call: Vec<String>,
    /// Arguments of the call as a JSON object [default: the smallest that fit the tool's schema]
    #[arg(long, value_name = "JSON", requires = "call")]
    arguments: Option<String>,
    /// Print the checks as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn check_server(
    config: &Config,
    args: &CheckArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let CheckArgs { server, call, arguments, json } = args;
    let calls = parse_calls(call, arguments.as_deref())?;
    let (name, options) = find(config, server)?;
    let sandbox = Sandbox::new(config.code_execution.clone()).map_err(|e| {
        CliError::failed(format!("the sandbox cannot start: {e}"))
            .hint("run 'nanoclaw doctor' to see what is missing")
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let ports = mcp_ports(config, &Arc::new(sandbox), &clock);
    let report = check(name, &options, &ports, &calls).map_err(|error| match error {
        McpCheckError::NoSession(reason) => CliError::failed(format!(
            "the MCP server '{name}' cannot be used: {reason}"
        ))
        .hint("does it run, and is its address or command right? see mcp_servers in: nanoclaw config show"),
        McpCheckError::NoTool { .. } => CliError::usage(format!("the MCP server '{name}': {error}"))
            .hint(format!("list them with: nanoclaw mcp check {server}")),
    })?;
    print(&report, *json, terminal)?;
    Ok(if report.is_working() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The tools to call, and with which arguments.
fn parse_calls(tools: &[String], arguments: Option<&str>) -> Result<McpCheckCalls, CliError> {
    if tools.is_empty() {
        return Ok(McpCheckCalls::ReadOnly);
    }
    let arguments =
        arguments.map(serde_json::from_str::<Map<String, Value>>).transpose().map_err(|error| {
            CliError::usage(format!("--arguments is not a JSON object: {error}"))
                .hint("as in: nanoclaw mcp check NAME --call TOOL --arguments '{\"key\": \"value\"}'")
        })?;
    Ok(McpCheckCalls::Named { tools: tools.to_vec(), arguments })
}

fn find<'a>(config: &'a Config, server: &'a str) -> Result<(&'a str, McpServerOptions), CliError> {
    if server.contains("://") {
        let options = McpServerOptions::at(server);
        return match options.faults(UNNAMED).first() {
            None => Ok((UNNAMED, options)),
            Some(fault) => Err(CliError::usage(format!("the address {}", fault.allowed))
                .hint("as in: nanoclaw mcp check http://127.0.0.1:3000/mcp")),
        };
    }
    if let Some(options) = config.mcp_servers.get(server) {
        return Ok((server, options.clone()));
    }
    let names: Vec<&str> = config.mcp_servers.keys().map(String::as_str).collect();
    let configured = if names.is_empty() {
        "there are none".to_owned()
    } else {
        format!("there are {}", names.join(", "))
    };
    Err(CliError::usage(format!("no MCP server '{server}' in mcp_servers: {configured}"))
        .hint("name one of them, or an address: nanoclaw mcp check http://127.0.0.1:3000/mcp"))
}

fn print(report: &McpServerReport, as_json: bool, terminal: &Terminal) -> Result<(), CliError> {
    if as_json {
        let output = json!({"ok": report.is_working(), "server": report.server, "protocol": report.protocol,
            "tools": report.tools});
        return Ok(terminal.line(&output.to_string())?);
    }
    terminal.line(&format!("{}, protocol {}", report.server, report.protocol))?;
    let wide = report.tools.iter().map(|tool| tool.name.len()).max().unwrap_or_default();
    for tool in &report.tools {
        let outcome_text = match tool.result {
            McpToolOutcome::Ok => "ok",
            McpToolOutcome::AnsweredError => "ok (error)",
            McpToolOutcome::Failed => "FAIL",
            McpToolOutcome::Listed => "listed",
            McpToolOutcome::Skipped => "skipped",
        };
        let line = format!("{:<wide$}  {outcome_text:<10}  {}", tool.name, describe(tool));
        terminal.line(line.trim_end())?;
    }
    let calls: Vec<&McpToolReport> = report.tools.iter().filter(|tool| tool.arguments.is_some()).collect();
    let count = |outcome: McpToolOutcome| report.tools.iter().filter(|tool| tool.result == outcome).count();
    terminal.info(&format!(
        "{} tools, {} called: {} answered, {} answered with an error, {} failed",
        report.tools.len(),
        calls.len(),
        count(McpToolOutcome::Ok),
        count(McpToolOutcome::AnsweredError),
        count(McpToolOutcome::Failed)
    ));
    Ok(())
}

/// What was called, and what came back; why it was not called otherwise.
fn describe(tool: &McpToolReport) -> String {
    let Some(arguments) = &tool.arguments else { return tool.detail.clone() };
    let shown: String = Value::Object(arguments.clone()).to_string().chars().take(ARGUMENTS_CHARS).collect();
    format!("{shown} → {}", tool.detail)
}
