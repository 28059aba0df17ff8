//! `nanoclaw mcp`: adds, lists and checks MCP servers, without our own server.

mod add;
mod check;
mod config_text;
mod list;

use super::error::CliError;
use super::terminal::Terminal;
use crate::config::{Config, Sources};
use std::process::ExitCode;

#[derive(Debug, clap::Subcommand)]
pub(super) enum McpCommand {
    /// Connect and list the tools; call those that say readOnlyHint, or those of --call
    Check(check::CheckArgs),
    /// Add a server to the configuration file
    Add(add::AddArgs),
    /// List the configured servers
    List(list::ListArgs),
}

/// Runs a command; `load` reads the configuration of `sources`.
pub(super) fn mcp(
    command: &McpCommand,
    sources: &Sources,
    load: impl FnOnce() -> Result<Config, CliError>,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        McpCommand::Check(args) => check::check_server(&load()?, args, terminal),
        McpCommand::Add(args) => add::add(sources, args, terminal).map(done),
        McpCommand::List(args) => list::list(&load()?, args, terminal).map(done),
    }
}
