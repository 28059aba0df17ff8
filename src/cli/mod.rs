//! The command line: one file a command. Owns the arguments and the exit codes; refuses to do what a room does.

mod ask;
mod backup;
mod batch;
mod bearer;
mod client;
mod completions;
mod configuration;
mod decide;
mod demo;
mod doctor;
mod error;
mod exec;
mod follow;
mod jobs;
mod logging;
mod mcp;
mod office;
mod prompt;
mod render;
mod serve;
mod terminal;
mod token;
mod tools;
mod user;
mod wire;

use crate::app::system::SystemClock;
use crate::config::{Config, ConfigError, Sources};
use crate::domain::secret::Secret;
use crate::ports::Clock;
use clap::{Args, Parser, Subcommand};
use client::Client;
use error::CliError;
use office::Office;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use terminal::Terminal;

/// Where the file is looked for.
const CONFIG_HELP: &str =
    "Configuration file [default: $NANOCLAW_CONFIG, ./config.yml, /etc/nanoclaw/config.yml]";

/// A durable AI-agent server in one file.
#[derive(Debug, Parser)]
#[command(name = "nanoclaw", version, about, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    common: Everywhere,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
struct Everywhere {
    /// Configuration file
    #[arg(long, global = true, value_name = "FILE", help = CONFIG_HELP)]
    config: Option<PathBuf>,
    /// Where the store lies; `data_dir` of the configuration
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The server that client commands talk to
    #[arg(long, global = true, value_name = "URL", env = "NANOCLAW_SERVER", default_value = client::DEFAULT_SERVER)]
    server: String,
    /// The key that client commands show to the server, as 'nanoclaw token new' prints it
    #[arg(long, global = true, value_name = "KEY", env = "NANOCLAW_TOKEN", hide_env_values = true)]
    token: Option<Secret>,
    /// Plain text without colours
    #[arg(long, global = true, env = "NO_COLOR", value_parser = clap::builder::FalseyValueParser::new())]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Watch a job being run, streamed, killed and resumed, on a server of its own
    Demo,
    /// Submit a job and stream its answer
    Ask(ask::AskArgs),
    /// Stream a job's events, from the start or after an event
    Tail(ask::TailArgs),
    /// Run a file of jobs and fetch the results; an interrupted call is picked up by the same command
    Batch(batch::BatchArgs),
    /// List jobs, newest first
    Jobs(jobs::JobsArgs),
    /// End a job
    Cancel(jobs::CancelArgs),
    /// Let calls be made that wait for approval
    Approve(decide::ApproveArgs),
    /// Refuse calls that wait for approval; the model is told why
    Deny(decide::DenyArgs),
    /// Run a failed job again from its last recorded step, and stream it
    Retry(ask::RetryArgs),
    /// Copy the whole store into a file, whether the server runs or not
    Backup(backup::BackupArgs),
    /// Make a backup the store again; the server has to be stopped
    Restore(backup::RestoreArgs),
    /// Make, list and change accounts, whether the server runs or not
    #[command(subcommand)]
    User(user::UserCommand),
    /// Make, list and revoke API tokens, whether the server runs or not
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// List the tools that models may call, or call one, whether the server runs or not
    Tools(tools::ToolsArgs),
    /// Run a program in the sandbox, without a server
    Exec(exec::ExecArgs),
    /// Say what works on this machine, what does not, and what to do about it
    Doctor(doctor::DoctorArgs),
    /// Look at an MCP server: connect, list, call each tool
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(configuration::ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

/// Runs the command that the arguments name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(refused) => {
            // Help and version are no errors; clap knows which stream and which code they take.
            drop(refused.print());
            return ExitCode::from(u8::try_from(refused.exit_code()).unwrap_or(error::Exit::Usage as u8));
        }
    };
    let terminal = Terminal::new(cli.common.no_color);
    match cli.command.run(&cli.common, &terminal) {
        Ok(code) => code,
        Err(error) => {
            if !error.is_silent() {
                terminal.complain(&error.to_string());
            }
            error.exit_code()
        }
    }
}

impl Command {
    fn run(&self, common: &Everywhere, terminal: &Terminal) -> Result<ExitCode, CliError> {
        let clock = SystemClock::new();
        let client = || Client::new(&common.server, common.token.as_ref());
        let done = |()| ExitCode::SUCCESS;
        match self {
            Self::Serve(args) => serve::serve(&common.load(args.flags())?, terminal).map(done),
            Self::Demo => demo::demo(&clock, terminal).map(done),
            Self::Ask(args) => ask::ask(&client()?, &clock, args, terminal).map(done),
            Self::Tail(args) => ask::tail(&client()?, &clock, args, terminal).map(done),
            Self::Batch(args) => {
                batch::batch(&client()?, common.sources(Vec::new()).state_home(), args, terminal)
            }
            Self::Jobs(args) => jobs::list(&client()?, args, terminal).map(done),
            Self::Cancel(args) => jobs::cancel(&client()?, args, terminal).map(done),
            Self::Approve(args) => decide::approve(&client()?, args, terminal).map(done),
            Self::Deny(args) => decide::deny(&client()?, args, terminal).map(done),
            Self::Retry(args) => ask::retry(&client()?, &clock, args, terminal).map(done),
            Self::Backup(args) => {
                let data_dir = || common.data_dir();
                backup::backup(&common.keeper()?, data_dir, args, terminal).map(done)
            }
            Self::Restore(args) => {
                backup::restore(&common.load(Vec::new())?, &clock, args, terminal).map(done)
            }
            Self::User(command) => user::user(|| common.office(), command, terminal).map(done),
            Self::Token(command) => token::token(&*common.office()?, command, terminal).map(done),
            Self::Tools(args) => {
                let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
                tools::tools(&common.load(Vec::new())?, &clock, args, terminal)
            }
            Self::Exec(args) => exec::exec(common.load(Vec::new())?.code_execution, args, terminal),
            Self::Doctor(args) => doctor::doctor(&common.load(Vec::new()), args, terminal),
            Self::Mcp(command) => mcp::mcp(&common.load(Vec::new())?, command, terminal),
            Self::Config(command) => {
                configuration::configuration(command, || common.load(Vec::new()), terminal).map(done)
            }
            Self::Completions { shell } => completions::completions(*shell, terminal).map(done),
        }
    }
}

impl Everywhere {
    /// The configuration with this command's flags on top.
    fn load(&self, mut flags: Vec<(String, String)>) -> Result<Config, CliError> {
        if let Some(dir) = &self.data_dir {
            flags.push(("data_dir".to_owned(), dir.display().to_string()));
        }
        Config::load(&self.sources(flags)).map_err(|error| refuse(&error))
    }

    /// The same for commands that ask no model: they need no key.
    fn load_keyless(&self) -> Result<Config, CliError> {
        let flag = self.data_dir.iter().map(|dir| ("data_dir".to_owned(), dir.display().to_string()));
        Config::load_keyless(&self.sources(flag.collect())).map_err(|error| refuse(&error))
    }

    /// Where the store lies; a directory that is named needs no configuration.
    fn data_dir(&self) -> Result<PathBuf, CliError> {
        self.data_dir.clone().map_or_else(|| self.load_keyless().map(|config| config.data_dir), Ok)
    }

    /// The server that is asked for the store: the one that is named, else the one that holds the data directory's, else
    /// the one at the usual address.
    fn keeper(&self) -> Result<Client, CliError> {
        let is_named = self.token.is_some() || self.server != client::DEFAULT_SERVER;
        match self.data_dir() {
            Ok(dir) if !is_named => {
                if let Some(client) = office::holder(&dir)? {
                    return Ok(client);
                }
            }
            Ok(_) | Err(_) => {}
        }
        Client::new(&self.server, self.token.as_ref())
    }

    /// Where this data directory's accounts are looked after.
    fn office(&self) -> Result<Box<dyn Office>, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        office::open(&self.load_keyless()?, &clock)
    }

    fn sources(&self, flags: Vec<(String, String)>) -> Sources {
        Sources::of_process(self.config.clone(), flags)
    }
}

fn refuse(error: &ConfigError) -> CliError {
    CliError::config(error.to_string()).hint("every key is explained by: nanoclaw config show --default")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
