//! The arguments that clap parses, and the configuration and server that the options of all commands select.

use super::client::ApiClient;
use super::error::CliError;
use super::store_target::StoreTarget;
use super::terminal::Colour;
use super::{
    admin, backup, batch, check, configuration, doctor, eval, exec, jobs, manual, mcp, migrate, nodes,
    replay, resources, runs, serve, tools, verify,
};
use crate::app::system::SystemClock;
use crate::config::{Config, ConfigError, Sources};
use crate::domain::secret::Secret;
use crate::ports::Clock;
use crate::store::StoreLocation;
use admin::{AccountAdmin, token, user};
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use jobs::{approval, ask, chat, list};
use runs::{export, import};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use verify::{LogSource, VerifyArgs};

const CONFIG_HELP: &str = "Configuration file [env: NANOCLAW_CONFIG]";

const SERVER_HELP: &str = "Server to use, or unix:/path";

/// A durable AI-agent server in one file.
#[derive(Debug, Parser)]
#[command(
    name = "nanoclaw",
    version,
    about,
    max_term_width = 100,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(super) struct Cli {
    #[command(flatten)]
    pub(super) common: GlobalOptions,
    #[command(subcommand)]
    pub(super) command: Command,
}

/// Options of every command. Each help page shows only those that its command uses.
#[derive(Debug, Args)]
pub(super) struct GlobalOptions {
    /// Configuration file [env: `NANOCLAW_CONFIG`] [default: ./config.yml, /etc/nanoclaw/config.yml]
    #[arg(long, global = true, display_order = 900, value_name = "FILE", help = CONFIG_HELP)]
    pub(super) config: Option<PathBuf>,
    /// Directory of the store, and of its server
    #[arg(long, global = true, display_order = 900, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// Server to use: its URL or its socket [default: the address in the configuration]
    #[arg(long, global = true, display_order = 900, value_name = "URL", help = SERVER_HELP, env = "NANOCLAW_SERVER", hide_env_values = true)]
    pub(super) server: Option<String>,
    /// Whether the command line names it, not the environment.
    #[arg(skip)]
    pub(super) is_server_named: bool,
    /// API key for the server
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "KEY",
        env = "NANOCLAW_TOKEN",
        hide_env_values = true
    )]
    pub(super) token: Option<Secret>,
    /// No colours
    #[arg(long, global = true, display_order = 900, env = "NO_COLOR", hide_env_values = true, value_parser = FalseyValueParser::new())]
    pub(super) no_color: bool,
    /// Colours even without a terminal
    #[arg(long, global = true, display_order = 900, hide = true, env = "CLICOLOR_FORCE", value_parser = FalseyValueParser::new())]
    pub(super) force_color: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Show a job that runs, streams, is killed and resumes, on a server of its own
    Demo,
    /// Submit a job and stream its answer
    Ask(ask::AskArgs),
    /// Stream a job's events, from the start or after an event
    Tail(ask::TailArgs),
    /// Run a file of jobs and fetch the results; repeat the command to resume it
    Batch(batch::BatchArgs),
    /// Ask one question after the other in one conversation
    Chat(chat::ChatArgs),
    /// List jobs, newest first
    Jobs(list::JobsArgs),
    /// List conversations, projects, schedules, batches, files, webhooks, models, tools or usage
    List(resources::ResourceListArgs),
    /// Print a job, conversation, project, schedule, batch or webhook delivery as JSON
    Show(resources::ItemArgs),
    /// Delete an ended job, a conversation, a project or a schedule
    Delete(resources::ItemArgs),
    /// Print the answer of a job
    Output(resources::OutputArgs),
    /// Cancel a job
    Cancel(list::CancelArgs),
    /// Allow tool calls that wait for approval
    Approve(approval::ApproveArgs),
    /// Refuse tool calls that wait for approval and tell the model why
    Deny(approval::DenyArgs),
    /// Run a failed job again from its last recorded step and stream it
    Retry(ask::RetryArgs),
    /// Write ended jobs with their logs into a file, for another server or a replay
    Export(export::ExportArgs),
    /// Store the runs of a file on the server; nothing runs
    Import(import::ImportArgs),
    /// Run a table of prompts with checks over models, and report what passes
    Eval(eval::EvalArgs),
    /// Run the loop of a job anew over its recorded answers and results, or with another model
    Replay(replay::ReplayArgs),
    /// Copy the whole store into a file, whether the server runs or not
    Backup(backup::BackupArgs),
    /// Replace the store by a backup; stop the server first
    Restore(backup::RestoreArgs),
    /// Read the whole store and name damaged rows; stop the server of a file first
    Check(check::StoreCheckArgs),
    /// Prove that no record of a job's log was changed, removed or moved
    Verify(verify::VerifyArgs),
    /// List the servers that share the database of store.url
    Nodes(nodes::NodesArgs),
    /// Move the store from a file into a database, or back; stop all servers first
    Migrate(migrate::MigrateArgs),
    /// Create, list and change accounts
    #[command(subcommand)]
    User(user::UserCommand),
    /// Create, list and revoke API tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// List the tools that models may call, or call one
    Tools(tools::ToolsArgs),
    /// Run a program in the sandbox, without a server
    Exec(exec::ExecArgs),
    /// Check what works on this machine, and advise on the rest
    Doctor(doctor::DoctorArgs),
    /// Add, list and check MCP servers
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(configuration::ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// Your shell
        #[arg(value_parser = PossibleValuesParser::new(["bash", "zsh", "fish"]).try_map(|name| name.parse::<Shell>()))]
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man(manual::ManArgs),
}

impl GlobalOptions {
    pub(super) fn colour(&self) -> Colour {
        match (self.no_color, self.force_color) {
            (true, _) => Colour::Never,
            (false, true) => Colour::Always,
            (false, false) => Colour::Auto,
        }
    }

    /// The configuration, with the flags of this command as the strongest layer.
    pub(super) fn load(&self, mut flags: Vec<(String, String)>) -> Result<Config, CliError> {
        if let Some(dir) = &self.data_dir {
            flags.push(("data_dir".to_owned(), dir.display().to_string()));
        }
        Config::load(&self.sources(flags)).map_err(|error| config_error(&error))
    }

    /// The configuration without model keys, for commands that call no model.
    pub(super) fn load_keyless(&self) -> Result<Config, CliError> {
        let flag = self.data_dir.iter().map(|dir| ("data_dir".to_owned(), dir.display().to_string()));
        Config::load_keyless(&self.sources(flag.collect())).map_err(|error| config_error(&error))
    }

    /// The database of the configuration, for a command whose options name both stores.
    pub(super) fn configured_database(&self) -> Result<StoreLocation, CliError> {
        let url = self.load_keyless()?.store.url.clone();
        let missing = || {
            CliError::failed("the configuration has no store.url")
                .hint("name a configuration with --config, or write the URL itself")
        };
        url.map(StoreLocation::Database).ok_or_else(missing)
    }

    /// Where to read logs: `--all` reads a store, and a server verifies one job or makes a checkpoint.
    pub(super) fn log_source(&self, args: &VerifyArgs) -> Result<LogSource, CliError> {
        if let Some(file) = args.file() {
            return Ok(LogSource::Export(file.to_owned()));
        }
        let target =
            if args.suits_server() { self.store_target() } else { self.own_store().map(StoreTarget::Store) };
        target.map(LogSource::Target)
    }

    /// Access to the accounts of a store.
    pub(super) fn account_admin(&self) -> Result<Box<dyn AccountAdmin>, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let target = self.held_store()?;
        admin::open(&target, &target.configure(self.load_keyless()?)?, &clock)
    }

    pub(super) fn sources(&self, flags: Vec<(String, String)>) -> Sources {
        Sources::of_process(self.config.clone(), flags)
    }
}

impl replay::ReplaySources for GlobalOptions {
    fn server(&self) -> Result<ApiClient, CliError> {
        self.client()
    }

    fn configuration(&self) -> Result<Config, CliError> {
        self.load_keyless()
    }

    fn configuration_in(&self, dir: &Path) -> Result<Config, CliError> {
        let config = Config::load(&self.sources(Vec::new())).map_err(|error| config_error(&error))?;
        Ok(config.kept_in(dir))
    }
}

pub(super) fn config_error(error: &ConfigError) -> CliError {
    let hint = match error {
        ConfigError::Denied { .. } => {
            "the file of the service belongs to root: use sudo, or name your own with --data-dir or --config"
        }
        _ => "every key is explained by: nanoclaw config show --default",
    };
    CliError::config(error.to_string()).hint(hint)
}
