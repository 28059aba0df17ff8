//! `nanoclaw import`: stores the runs of a file on a server, one request for each.

use super::export::refused;
use crate::cli::client::{ApiClient, RequestError};
use crate::cli::error::CliError;
use crate::cli::terminal::{Terminal, open_input};
use crate::domain::run_file::{RunFile, RunFileReader};
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::BufRead;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// A file that 'nanoclaw export' has written; '-' reads stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print what came of each run as JSON
    #[arg(long)]
    json: bool,
}

/// Imports the runs of the file. A run that the server refuses does not keep the others from it.
pub(crate) fn import(client: &ApiClient, args: &ImportArgs, terminal: &Terminal) -> Result<(), CliError> {
    client.check_reachable()?;
    let (mut outcomes, mut refusals) = (Vec::new(), 0_usize);
    let (mut lines, name) = (open(&args.file)?, args.file.display());
    let runs = each_run(&mut lines, &name, &mut |file, text| {
        let outcome = send(client, &file.run.run.state.id.to_string(), text)?;
        if outcome.get("error").is_some() {
            refusals = refusals.saturating_add(1);
        }
        if !args.json {
            terminal.line(&describe(&outcome))?;
        }
        outcomes.push(outcome);
        Ok(())
    });
    if args.json {
        terminal.line(&Value::from(outcomes.clone()).to_string())?;
    }
    runs?;
    if refusals == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!("{refusals} of {} runs were not imported", outcomes.len()))
        .hint("the message of each says why; the others are stored"))
}

fn describe(outcome: &Value) -> String {
    let text = |key: &str| outcome.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("error") {
        "" => format!("{} {}", text("job"), text("outcome")),
        error => format!("{} refused: {error}", text("job")),
    }
}

/// Sends a run. A refusal of this run is an outcome; of any run, an error.
fn send(client: &ApiClient, id: &str, text: &str) -> Result<Value, CliError> {
    let sent = client.upload("/v1/jobs/import", id, &mut text.as_bytes(), text.len() as u64);
    match sent {
        Ok(answer) => Ok(json!({"job": id, "outcome": answer.get("outcome")})),
        Err(RequestError::Refused(400 | 409 | 413, message)) => Ok(json!({"job": id, "error": message})),
        // The server answered before.
        Err(RequestError::Unavailable(reason)) => {
            Err(CliError::failed(format!("the server does not take {id} now: {reason}"))
                .hint("the same command goes on later; runs that are stored stay as they are"))
        }
        Err(error) => Err(refused(client, error)),
    }
}

/// Opens a file of runs; `-` is stdin.
pub(crate) fn open(path: &Path) -> Result<Box<dyn BufRead>, CliError> {
    open_input(path).map_err(|error| unreadable(&path.display(), &error))
}

fn unreadable(name: &dyn Display, why: &dyn Display) -> CliError {
    CliError::failed(format!("cannot read '{name}': {why}"))
        .hint("a file of runs comes from: nanoclaw export JOB -o FILE")
}

/// Calls `each` with each run and its text. Each is checked before; the error of a fault names its line.
pub(crate) fn each_run(
    lines: &mut dyn BufRead,
    name: &dyn Display,
    each: &mut dyn FnMut(RunFile, &str) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let (mut read, mut text, mut line) = (0_u64, String::new(), String::new());
    let mut reader = RunFileReader::default();
    loop {
        line.clear();
        let bytes = lines.read_line(&mut line);
        let fault = |error| unreadable(name, &format!("line {}: {error}", read.saturating_add(1)));
        if bytes.map_err(fault)? == 0 {
            break;
        }
        read = read.saturating_add(1);
        text.push_str(&line);
        if let Some(file) = reader.push(&line).map_err(|fault| unreadable(name, &fault))? {
            each(file, &text)?;
            text.clear();
            reader = RunFileReader::behind(read);
        }
    }
    if read == 0 || reader.is_open() {
        return Err(unreadable(name, &reader.cut_off()));
    }
    Ok(())
}
