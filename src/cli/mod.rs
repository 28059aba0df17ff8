//! The command line: parses the arguments, runs one command, and turns its outcome into an exit code.

mod admin;
mod backup;
mod batch;
mod check;
mod client;
mod command_line;
mod configuration;
mod demo;
mod doctor;
mod error;
mod eval;
mod exec;
mod help;
mod interrupt;
mod jobs;
mod local_server;
mod logging;
mod manual;
mod mcp;
mod migrate;
mod nodes;
mod place_options;
mod replay;
mod resources;
mod runs;
mod serve;
mod store_target;
mod terminal;
mod tools;
mod usage_error;
mod verify;

use crate::app::system::SystemClock;
use crate::ports::Clock;
use admin::{token, user};
use clap::FromArgMatches;
use clap::parser::ValueSource;
use command_line::{Cli, Command, GlobalOptions};
use error::CliError;
use jobs::{approval, ask, chat, list};
use mcp::ModelKeyUse;
use runs::{export, import};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use terminal::{Colour, Terminal};

/// Runs the command that the arguments name and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let wants_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let parsed = help::command().try_get_matches_from(&arguments);
    let read = |matches: clap::ArgMatches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        cli.common.is_server_named = matches.value_source("server") == Some(ValueSource::CommandLine);
        Ok(cli)
    };
    match parsed.and_then(read) {
        Ok(cli) => {
            let terminal = Terminal::new(cli.common.colour());
            // An evaluation writes its JSON into the file that the option names.
            let wants_json = wants_json && !matches!(cli.command, Command::Eval(_));
            cli.command
                .run(&cli.common, &terminal)
                .unwrap_or_else(|error| report_error(&error, wants_json, &terminal))
        }
        Err(help_text) if usage_error::is_help(&help_text) => {
            // clap chooses the stream and the exit code of help and version texts.
            drop(help_text.print());
            ExitCode::from(u8::try_from(help_text.exit_code()).unwrap_or(error::Exit::Usage as u8))
        }
        Err(parse_error) => report_error(
            &usage_error::usage_error(&parse_error, &arguments),
            wants_json,
            &Terminal::new(Colour::Never),
        ),
    }
}

/// Prints the error of a failed command and returns its exit code.
fn report_error(error: &CliError, wants_json: bool, terminal: &Terminal) -> ExitCode {
    if !error.is_silent() {
        terminal.error(&if wants_json { error.to_json().to_string() } else { error.to_string() });
    }
    error.exit_code()
}

impl Command {
    fn run(&self, common: &GlobalOptions, terminal: &Terminal) -> Result<ExitCode, CliError> {
        common.check_places()?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let client = || common.client();
        let done = |()| ExitCode::SUCCESS;
        match self {
            Self::Serve(args) => serve::serve(&args.apply(common.load(args.flags())?), terminal).map(done),
            Self::Demo => demo::demo(&clock, terminal).map(done),
            Self::Ask(args) => ask::ask(&client()?, args, terminal).map(done),
            Self::Chat(args) => chat::chat(&client()?, args, terminal).map(done),
            Self::Tail(args) => ask::tail(&client()?, args, terminal).map(done),
            Self::Batch(args) => {
                let state_home = common.sources(Vec::new()).state_home();
                batch::batch(&client()?, state_home, args, terminal).map(done)
            }
            Self::Jobs(args) => list::list(&client()?, args, terminal).map(done),
            Self::List(args) => resources::list(&client()?, args, terminal).map(done),
            Self::Show(args) => resources::show(&client()?, args, terminal).map(done),
            Self::Delete(args) => resources::delete(&client()?, args, terminal).map(done),
            Self::Output(args) => resources::output(&client()?, args, terminal).map(done),
            Self::Cancel(args) => list::cancel(&client()?, args, terminal).map(done),
            Self::Approve(args) => approval::approve(&client()?, args, terminal).map(done),
            Self::Deny(args) => approval::deny(&client()?, args, terminal).map(done),
            Self::Retry(args) => ask::retry(&client()?, args, terminal).map(done),
            Self::Export(args) => export::export(&client()?, args, terminal).map(done),
            Self::Import(args) => import::import(&client()?, args, terminal).map(done),
            Self::Eval(args) => {
                let sandbox = || Ok(common.load_keyless()?.code_execution.clone());
                eval::eval(&client()?, sandbox, args, terminal).map(done)
            }
            Self::Replay(args) => replay::replay(common, &clock, args, terminal),
            Self::Backup(args) => backup::backup(|| common.store_target(), args, terminal).map(done),
            Self::Restore(args) => backup::restore(&common.own_store()?, &*clock, args, terminal).map(done),
            Self::Check(args) => check::check(&common.own_store()?, args, terminal),
            Self::Verify(args) => verify::verify(&common.log_source(args)?, args, terminal),
            Self::Migrate(args) => {
                common.refuse_places("migrate names both stores with --from and --to")?;
                migrate::migrate(|| common.configured_database(), args, terminal)
            }
            Self::User(command) => user::user(|| common.account_admin(), command, terminal).map(done),
            Self::Token(command) => token::token(&*common.account_admin()?, command, terminal).map(done),
            Self::Nodes(args) => {
                let load = || common.load_keyless();
                nodes::nodes(&common.store_target()?, load, &*clock, args, terminal).map(done)
            }
            Self::Tools(args) => {
                let target = common.held_store()?;
                let config = target.configure(common.load(Vec::new())?)?;
                tools::tools(&target, &config, &clock, args, terminal)
            }
            Self::Exec(args) => exec::exec(common.load(Vec::new())?.code_execution.clone(), args, terminal),
            Self::Doctor(args) => {
                doctor::doctor(common.load(Vec::new()), || common.load_keyless(), args, terminal)
            }
            Self::Mcp(command) => {
                let load = |keys| match keys {
                    ModelKeyUse::None => common.load_keyless(),
                    ModelKeyUse::Models => common.load(Vec::new()),
                };
                let named = || common.named_server();
                mcp::mcp(command, &common.sources(Vec::new()), (load, named), terminal)
            }
            Self::Config(command) => {
                let load = |is_keyless| {
                    if is_keyless { common.load_keyless() } else { common.load(Vec::new()) }
                };
                configuration::configuration(command, load, terminal).map(done)
            }
            Self::Completions { shell } => manual::completions(*shell, help::manual(), terminal).map(done),
            Self::Man(args) => manual::man(args, help::manual(), terminal).map(done),
        }
    }
}
