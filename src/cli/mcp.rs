//! `nanoclaw mcp check`: connects to an MCP server and calls each tool once, without our own server.

use super::error::CliError;
use super::terminal::Terminal;
use crate::app::mcp_ports;
use crate::app::system::SystemClock;
use crate::config::Config;
use crate::mcp::{McpServerOptions, McpServerReport, McpToolOutcome, check};
use crate::ports::Clock;
use nanoclaw_sandbox::Sandbox;
use serde_json::json;
use std::process::ExitCode;
use std::sync::Arc;

/// Name of a server that is given by its URL.
const UNNAMED: &str = "url";

#[derive(Debug, clap::Subcommand)]
pub(super) enum McpCommand {
    /// Connect, list the tools and call each once with sample arguments; exit 0 if all respond
    Check {
        /// A server of `mcp_servers`, or a URL (http://… or https://…)
        #[arg(value_name = "NAME|URL")]
        server: String,
        /// Print the checks as JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn mcp(config: &Config, command: &McpCommand, terminal: &Terminal) -> Result<ExitCode, CliError> {
    let McpCommand::Check { server, json } = command;
    let (name, options) = find(config, server)?;
    let sandbox = Sandbox::new(config.code_execution.clone()).map_err(|e| {
        CliError::failed(format!("the sandbox cannot start: {e}"))
            .hint("run 'nanoclaw doctor' to see what is missing")
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let report = check(name, &options, &mcp_ports(&Arc::new(sandbox), &clock)).map_err(|reason| {
        CliError::failed(format!("the MCP server '{name}' cannot be used: {reason}")).hint(
            "does it run, and is its address or command right? see mcp_servers in: nanoclaw config show",
        )
    })?;
    print(&report, *json, terminal)?;
    Ok(if report.is_working() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
            McpToolOutcome::Skipped => "skipped",
        };
        terminal.line(format!("{:<wide$}  {outcome_text:<10}  {}", tool.name, tool.detail).trim_end())?;
    }
    let count = |outcome: McpToolOutcome| report.tools.iter().filter(|tool| tool.result == outcome).count();
    terminal.info(&format!(
        "{} tools: {} answered, {} answered with an error, {} failed, {} skipped",
        report.tools.len(),
        count(McpToolOutcome::Ok),
        count(McpToolOutcome::AnsweredError),
        count(McpToolOutcome::Failed),
        count(McpToolOutcome::Skipped)
    ));
    Ok(())
}
