//! `nanoclaw config`: what holds, and whether it makes sense. Secrets are masked.

use super::error::CliError;
use super::terminal::Terminal;
use crate::config::{Config, DEFAULT_YML};
use crate::llm::Router;

/// What `config` was asked.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the configuration as it holds, all layers merged, secrets masked
    Show {
        /// Print every key with its default and its meaning instead
        #[arg(long)]
        default: bool,
    },
    /// Say whether the configuration is valid, and what is wrong with it
    Check,
}

/// Prints or checks.
pub(super) fn configuration(
    command: &ConfigCommand,
    load: impl FnOnce() -> Result<Config, CliError>,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        ConfigCommand::Show { default: true } => terminal.data(DEFAULT_YML)?,
        ConfigCommand::Show { default: false } => terminal.data(&load()?.to_yaml())?,
        ConfigCommand::Check => {
            let config = load()?;
            // What the models' own room refuses is a fault of the configuration, too.
            Router::new(config.models, &config.limits).map_err(|error| {
                CliError::config(error.to_string())
                    .hint("each key of a model is explained by: nanoclaw config show --default")
            })?;
            terminal.line("the configuration is valid")?;
        }
    }
    Ok(())
}
