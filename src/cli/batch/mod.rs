//! `nanoclaw batch`: uploads a file of jobs and writes the results to a file. After an interrupt the same
//! command resumes the batch.

mod input;
mod output;
mod progress;
mod resume;
mod run;

use crate::app::system::{SystemClock, SystemEntropy};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::interrupt::{exit_on_interrupt, unless_interrupted};
use crate::cli::terminal::Terminal;
use crate::ports::{CancelToken, Entropy};
use input::BatchInput;
use output::ResultTarget;
use progress::{BatchLineCounts, BatchProgress, BatchResponse};
use resume::ResumeState;
pub(super) use run::BatchArgs;
use run::BatchCommandRun;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Runs the batch to its end or until Ctrl-C.
pub(super) fn batch(
    client: &ApiClient,
    state_home: Option<PathBuf>,
    args: &BatchArgs,
    terminal: &Terminal,
) -> Result<(), CliError> {
    if args.json && args.output.is_none() && !args.detach {
        return Err(CliError::usage("--json and the results would share stdout")
            .hint("give the results a file: --output OUT"));
    }
    let folder = ResumeState::folder(state_home)?;
    let input = BatchInput::open(&args.file, &folder)?;
    let state_path = ResumeState::path(&folder, client.base(), &input);
    let saved = if args.new { None } else { ResumeState::load(&state_path)? };
    saved.as_ref().map_or(Ok(()), ResumeState::check_unfinished)?;
    let target = ResultTarget::find(args.output.as_deref(), &input, args.force)?;
    let resume_state = match saved {
        Some(saved) => saved,
        None => start(client, state_path, &input)?,
    };
    let stop = CancelToken::new(Arc::new(SystemClock::new()));
    let progress = BatchProgress::new(terminal);
    let report = {
        let (client, terminal, progress) = (client.clone(), terminal.clone(), progress.clone());
        let (path, is_to_cancel) = (resume_state.path.clone(), args.cancel_on_interrupt);
        move || {
            progress.end();
            report_interrupt(&client, &path, is_to_cancel, &terminal);
        }
    };
    exit_on_interrupt(&stop, report)?;
    let run = BatchCommandRun { client, stop: &stop, progress: &progress, input, resume_state, args, target };
    let result = run.run();
    progress.end();
    report_end(&unless_interrupted(result, &stop)?, args, terminal)
}

/// A new state, once the server is known to be reachable.
fn start(client: &ApiClient, path: PathBuf, input: &BatchInput) -> Result<ResumeState, CliError> {
    client.check_reachable()?;
    ResumeState::create(path, client.base(), input, SystemEntropy.random())
}

/// Prints the outcome of a finished or detached batch.
fn report_end(batch: &BatchResponse, args: &BatchArgs, terminal: &Terminal) -> Result<(), CliError> {
    if args.json {
        terminal.line(&batch.json.to_string())?;
    } else if args.detach {
        terminal.line(&batch.id)?;
    }
    if args.detach {
        terminal.info("the same command without --detach waits for the results");
        return Ok(());
    }
    let BatchLineCounts { total, completed, failed } = batch.request_counts;
    let file = args.output.as_ref().map_or_else(String::new, |file| format!(": {}", file.display()));
    let (id, status) = (&batch.id, &batch.status);
    terminal.info(&format!("{id} {status}, {completed} lines succeeded, {failed} failed{file}"));
    if failed == 0 {
        return Ok(());
    }
    Err(CliError::failed(format!("{failed} of {total} lines failed")).hint("'error' in a result says why"))
}

/// Says what happens to the batch after Ctrl-C, and cancels it if asked to.
fn report_interrupt(client: &ApiClient, state: &Path, is_to_cancel: bool, terminal: &Terminal) {
    let state = ResumeState::load(state).ok().flatten();
    match state.as_ref().and_then(|state| Some((state, state.batch.as_deref()?))) {
        None => terminal.info("interrupted during the upload; the same command resumes it"),
        Some((state, id)) if is_to_cancel => match cancel(client, id, state) {
            Ok(()) => terminal.info(&format!("{id} is cancelled")),
            Err(error) => terminal.error(&error.to_string()),
        },
        Some((_, id)) => terminal.info(&format!("{id} continues on the server; the same command resumes it")),
    }
}

fn cancel(client: &ApiClient, id: &str, state: &ResumeState) -> Result<(), CliError> {
    client.post(&run::path(id, "/cancel")?, None)?;
    state.delete()
}
