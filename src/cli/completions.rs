//! `nanoclaw completions`: a completion script for a shell, generated from the commands themselves.

use super::Cli;
use super::error::CliError;
use super::terminal::Terminal;
use clap::CommandFactory;
use clap_complete::Shell;

/// Prints the script for `shell`.
pub(super) fn completions(shell: Shell, terminal: &Terminal) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "nanoclaw", &mut script);
    Ok(terminal.data(&String::from_utf8_lossy(&script))?)
}
