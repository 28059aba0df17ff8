//! `nanoclaw mcp`: adds, lists and checks MCP servers, without our own server, and is an MCP server itself.

mod add;
mod bridge;
mod check;
mod config_text;
mod list;
mod serve;

use super::client::ApiClient;
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
    /// Be an MCP server over stdin and stdout, for an editor or another agent
    Serve,
}

/// Runs a command. `load` reads the configuration of `sources`, without model keys or with them; `named` is
/// the server that an option names.
pub(super) fn mcp(
    command: &McpCommand,
    sources: &Sources,
    (load, named): (impl Fn(ModelKeyUse) -> Result<Config, CliError>, impl FnOnce() -> NamedServer),
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        McpCommand::Check(args) => check::check_server(&load(ModelKeyUse::None)?, args, terminal),
        McpCommand::Add(args) => add::add(sources, args, terminal).map(done),
        McpCommand::List(args) => list::list(&load(ModelKeyUse::None)?, args, terminal).map(done),
        McpCommand::Serve => serve::serve(named()?, || load(ModelKeyUse::Models), terminal).map(done),
    }
}

/// Whether a command uses the keys of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelKeyUse {
    None,
    Models,
}

/// The server that an option names, if one does.
pub(super) type NamedServer = Result<Option<ApiClient>, CliError>;
