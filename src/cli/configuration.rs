//! `nanoclaw config`: shows or checks the configuration. Secrets are masked.

use super::error::CliError;
use super::terminal::Terminal;
use crate::config::{Config, DEFAULT_YML};
use crate::domain::secret::Secret;
use crate::llm::Router;
use crate::llm::options::ModelOptions;
use serde_json::json;

#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Print the configuration: all layers merged, secrets masked
    Show {
        /// Print every key with its default and its meaning instead
        #[arg(long, conflicts_with = "json")]
        default: bool,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration and say what is wrong with it
    Check {
        /// Ignore the keys of models
        #[arg(long)]
        keyless: bool,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Shows or checks; `load` takes whether to ignore the keys of models.
pub(super) fn configuration(
    command: &ConfigCommand,
    load: impl FnOnce(bool) -> Result<Config, CliError>,
    terminal: &Terminal,
) -> Result<(), CliError> {
    match command {
        ConfigCommand::Show { default: true, .. } => terminal.data(DEFAULT_YML)?,
        ConfigCommand::Show { json: false, .. } => terminal.data(&load(false)?.to_yaml())?,
        ConfigCommand::Show { json: true, .. } => {
            let config_json = serde_json::to_string(&load(false)?);
            terminal.line(&config_json.map_err(|error| CliError::failed(error.to_string()))?)?;
        }
        ConfigCommand::Check { json, keyless } => {
            let config = load(*keyless)?;
            // The router checks more than the configuration does.
            let file = config.file.clone();
            let models = if *keyless { with_keys(config.models.clone()) } else { config.models.clone() };
            Router::new(models, &config.limits).map_err(|error| {
                CliError::config(error.to_string())
                    .hint("each key of a model is explained by: nanoclaw config show --default")
            })?;
            let (original_keys, warnings) = (&config.original_keys, &config.warnings);
            if *json {
                let checked = json!({"valid": true, "file": file, "original_keys": original_keys,
                    "warnings": warnings});
                return Ok(terminal.line(&checked.to_string())?);
            }
            for warning in warnings {
                terminal.info(&format!("warning: {warning}"));
            }
            terminal.line("the configuration is valid")?;
            if !original_keys.is_empty() {
                terminal.line("it has keys of the original NanoClaw:")?;
                original_keys.iter().try_for_each(|line| terminal.line(&format!("  {line}")))?;
            }
        }
    }
    Ok(())
}

/// Gives a placeholder key to every model without one, so that the rest of the model is checked.
pub(super) fn with_keys(mut models: Vec<ModelOptions>) -> Vec<ModelOptions> {
    for model in &mut models {
        model.api_key.get_or_insert_with(|| Secret::from("not-looked-at".to_owned()));
    }
    models
}
