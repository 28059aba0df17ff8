//! The command line: one file a command. Owns the arguments and the exit codes; refuses to do what a room does.

mod arguments;
mod ask;
mod backup;
mod batch;
mod bearer;
mod client;
mod configuration;
mod decide;
mod demo;
mod doctor;
mod error;
mod excerpt;
mod exec;
mod follow;
mod gauge;
mod help;
mod jobs;
mod logging;
mod manual;
mod mcp;
mod office;
mod patience;
mod prompt;
mod render;
mod serve;
mod terminal;
mod token;
mod tools;
mod unix;
mod user;
mod visible;
mod watch;
mod wire;

use crate::app::system::SystemClock;
use crate::config::{Config, ConfigError, Sources};
use crate::domain::secret::Secret;
use crate::ports::Clock;
use clap::builder::FalseyValueParser;
use clap::{Args, FromArgMatches, Parser, Subcommand};
use client::Client;
use error::CliError;
use office::Office;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use terminal::{Colour, Terminal};

/// Where the file is looked for.
const CONFIG_HELP: &str = "Configuration file [env: NANOCLAW_CONFIG]";

/// What stands for a server.
const SERVER_HELP: &str = "Server to talk to, or unix:/path";

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
pub(crate) struct Cli {
    #[command(flatten)]
    common: Everywhere,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
struct Everywhere {
    /// Configuration file [env: `NANOCLAW_CONFIG`] [default: ./config.yml, /etc/nanoclaw/config.yml]
    #[arg(long, global = true, display_order = 900, value_name = "FILE", help = CONFIG_HELP)]
    config: Option<PathBuf>,
    /// Directory of the store, instead of the configured one
    #[arg(long, global = true, display_order = 900, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Server to talk to, by its URL or its socket
    #[arg(long, global = true, display_order = 900, value_name = "URL", help = SERVER_HELP, env = "NANOCLAW_SERVER", hide_env_values = true, hide_default_value = true, default_value = client::DEFAULT_SERVER)]
    server: String,
    /// Key to show to the server
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "KEY",
        env = "NANOCLAW_TOKEN",
        hide_env_values = true
    )]
    token: Option<Secret>,
    /// Plain text without colours
    #[arg(long, global = true, display_order = 900, env = "NO_COLOR", hide_env_values = true, value_parser = FalseyValueParser::new())]
    no_color: bool,
    /// Colours even where there is no terminal
    #[arg(long, global = true, display_order = 900, hide = true, env = "CLICOLOR_FORCE", value_parser = FalseyValueParser::new())]
    force_color: bool,
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
    /// Run a file of jobs and fetch the results; the same command picks an interrupted call up
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
    /// Make, list and change accounts
    #[command(subcommand)]
    User(user::UserCommand),
    /// Make, list and revoke API tokens
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// List the tools that models may call, or call one
    Tools(tools::ToolsArgs),
    /// Run a program in the sandbox, without a server
    Exec(exec::ExecArgs),
    /// Say what works on this machine, what does not, and what to do about it
    Doctor(doctor::DoctorArgs),
    /// Look at an MCP server
    #[command(subcommand)]
    Mcp(mcp::McpCommand),
    /// Show or check the configuration
    #[command(subcommand)]
    Config(configuration::ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// Your shell
        shell: manual::Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man(manual::ManArgs),
}

/// Runs the command that the arguments name.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let parsed = help::command().try_get_matches_from(&arguments);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            let terminal = Terminal::new(cli.common.colour());
            cli.command
                .run(&cli.common, &terminal)
                .unwrap_or_else(|error| tell(&error, wants_json, &terminal))
        }
        Err(shown) if arguments::is_help(&shown) => {
            // clap knows which stream and which code they take.
            drop(shown.print());
            ExitCode::from(u8::try_from(shown.exit_code()).unwrap_or(error::Exit::Usage as u8))
        }
        Err(refused) => {
            tell(&arguments::refusal(&refused, &arguments), wants_json, &Terminal::new(Colour::Never))
        }
    }
}

/// The last word of a command that failed, and its code.
fn tell(error: &CliError, wants_json: bool, terminal: &Terminal) -> ExitCode {
    if wants_json && !error.is_silent() {
        terminal.complain(&error.to_json().to_string());
    } else if !error.is_silent() {
        terminal.complain(&error.to_string());
    }
    error.exit_code()
}

impl Command {
    fn run(&self, common: &Everywhere, terminal: &Terminal) -> Result<ExitCode, CliError> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let client = || Client::new(&common.server, common.token.as_ref());
        let done = |()| ExitCode::SUCCESS;
        match self {
            Self::Serve(args) => serve::serve(&common.load(args.flags())?, terminal).map(done),
            Self::Demo => demo::demo(&clock, terminal).map(done),
            Self::Ask(args) => ask::ask(&client()?, args, terminal),
            Self::Tail(args) => ask::tail(&client()?, args, terminal),
            Self::Batch(args) => {
                batch::batch(&client()?, common.sources(Vec::new()).state_home(), args, terminal)
            }
            Self::Jobs(args) => jobs::list(&client()?, args, terminal).map(done),
            Self::Cancel(args) => jobs::cancel(&client()?, args, terminal).map(done),
            Self::Approve(args) => decide::approve(&client()?, args, terminal).map(done),
            Self::Deny(args) => decide::deny(&client()?, args, terminal).map(done),
            Self::Retry(args) => ask::retry(&client()?, args, terminal),
            Self::Backup(args) => {
                let data_dir = || common.data_dir();
                backup::backup(&common.keeper()?, data_dir, args, terminal).map(done)
            }
            Self::Restore(args) => backup::restore(&common.data_dir()?, &*clock, args, terminal).map(done),
            Self::User(command) => user::user(|| common.office(), command, terminal).map(done),
            Self::Token(command) => token::token(&*common.office()?, command, terminal).map(done),
            Self::Tools(args) => {
                let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
                tools::tools(&common.load(Vec::new())?, &clock, args, terminal)
            }
            Self::Exec(args) => exec::exec(common.load(Vec::new())?.code_execution, args, terminal),
            Self::Doctor(args) => {
                doctor::doctor(common.load(Vec::new()), || common.load_keyless(), args, terminal)
            }
            Self::Mcp(command) => mcp::mcp(&common.load(Vec::new())?, command, terminal),
            Self::Config(command) => {
                let load = |is_keyless| {
                    if is_keyless { common.load_keyless() } else { common.load(Vec::new()) }
                };
                configuration::configuration(command, load, terminal).map(done)
            }
            Self::Completions { shell } => manual::completions(*shell, terminal).map(done),
            Self::Man(args) => manual::man(args, terminal).map(done),
        }
    }
}

impl Everywhere {
    fn colour(&self) -> Colour {
        match (self.no_color, self.force_color) {
            (true, _) => Colour::Never,
            (false, true) => Colour::Always,
            (false, false) => Colour::Auto,
        }
    }

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
    let hint = match error {
        ConfigError::Denied { .. } => {
            "the service's is root's: run this with sudo, or name your own with --data-dir or --config"
        }
        _ => "every key is explained by: nanoclaw config show --default",
    };
    CliError::config(error.to_string()).hint(hint)
}
