//! `nanoclaw batch`: uploads a file of jobs and writes the results to a file. After an interrupt the same
//! command resumes the batch.

mod input;
mod output;
mod progress;
mod resume;
mod run;

use crate::app::system::{SystemClock, SystemEntropy};
use crate::app::{INTERRUPTED_EXIT, on_interrupt};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use input::BatchInput;
use output::ResultTarget;
use progress::{BatchProgress, BatchResponse};
use resume::ResumeState;
use run::{BatchCommandRun, BatchRunOptions};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time between two checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct BatchArgs {
    /// Jobs, one JSON object a line with name and body; '-' reads stdin
    #[arg(value_name = "FILE.jsonl")]
    pub(super) file: PathBuf,
    /// File for the results, written when complete [default: stdout]
    #[arg(short, long, value_name = "OUT", conflicts_with = "detach")]
    pub(super) output: Option<PathBuf>,
    /// Jobs of the batch in the queue at once [default: the server's setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) concurrency: Option<u32>,
    /// Print the batch's id and exit; repeat the command without it for the results
    #[arg(long)]
    pub(super) detach: bool,
    /// Cancel the batch on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    pub(super) cancel_on_interrupt: bool,
    /// Start a new batch instead of resuming an interrupted one
    #[arg(long)]
    pub(super) new: bool,
    /// Print the finished batch as JSON; needs --output or --detach
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the batch to its end or until Ctrl-C.
pub(super) fn batch(
    client: &ApiClient,
    state_home: Option<PathBuf>,
    args: &BatchArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    if args.json && args.output.is_none() && !args.detach {
        return Err(CliError::usage("--json and the results would share stdout")
            .hint("give the results a file: --output OUT"));
    }
    let folder = ResumeState::folder(state_home)?;
    let input = BatchInput::open(&args.file, &folder)?;
    let target = ResultTarget::find(args.output.as_deref(), &input)?;
    let entropy = Arc::new(SystemEntropy);
    let resume_state = resume_or_start(client, &folder, &input, args.new, &*entropy)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stop, progress) = (CancelToken::new(Arc::clone(&clock)), BatchProgress::new(terminal));
    let batch_run = BatchCommandRun {
        client: client.clone(),
        clock,
        entropy,
        stop: stop.clone(),
        progress: progress.twin(),
        input,
        resume_state: resume_state.clone(),
        options: BatchRunOptions { concurrency: args.concurrency, detach: args.detach, target },
    };
    let interrupted = stop.clone();
    on_interrupt(move || interrupted.cancel(CancelReason::Cancelled))
        .map_err(|error| CliError::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    let (result_sender, result_receiver) = channel();
    let working = std::thread::Builder::new()
        .name("batch".to_owned())
        .spawn(move || drop(result_sender.send(batch_run.run())));
    working.map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    let result = await_end(&result_receiver, &stop);
    progress.end();
    match result {
        Some(result) => result.and_then(|(response, batch)| report(&response, &batch, args, terminal)),
        None => Ok(report_interrupt(client, &resume_state, args, terminal)),
    }
}

/// The saved state of an interrupted run, else a new one. A new run checks first that the server is
/// reachable.
fn resume_or_start(
    client: &ApiClient,
    folder: &std::path::Path,
    input: &BatchInput,
    is_new: bool,
    entropy: &dyn Entropy,
) -> Result<ResumeState, CliError> {
    let path = ResumeState::path(folder, client.base(), input);
    let found = if is_new { None } else { ResumeState::load(&path)? };
    found.map_or_else(
        || {
            client.check_reachable()?;
            ResumeState::create(path, client.base(), input, entropy.random())
        },
        Ok,
    )
}

type BatchOutcome = Result<(BatchResponse, Value), CliError>;

/// The result of the run. `None` after Ctrl-C.
fn await_end(result_receiver: &Receiver<BatchOutcome>, stop: &CancelToken) -> Option<BatchOutcome> {
    loop {
        let is_stopped = stop.reason().is_some();
        match result_receiver.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(end)) => return Some(Ok(end)),
            _ if is_stopped || stop.reason().is_some() => return None,
            Ok(Err(error)) => return Some(Err(error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(
                    CliError::failed("the batch's thread panicked").hint("the same command resumes it")
                ));
            }
        }
    }
}

/// Prints the outcome of a finished or detached batch.
fn report(
    response: &BatchResponse,
    batch: &Value,
    args: &BatchArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    if args.json {
        terminal.line(&batch.to_string())?;
    } else if args.detach {
        terminal.line(&response.id)?;
    }
    if args.detach {
        terminal.say("the same command without --detach waits for the results");
        return Ok(ExitCode::SUCCESS);
    }
    let counts = response.request_counts;
    let into = args.output.as_ref().map_or_else(String::new, |out| format!(": {}", out.display()));
    terminal.say(&format!(
        "{} {}, {} lines succeeded, {} failed{into}",
        response.id, response.status, counts.completed, counts.failed
    ));
    if counts.failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(CliError::failed(format!("{} of {} lines failed", counts.failed, counts.total))
        .hint("'error' in a result says why"))
}

/// Says what happens to the batch after Ctrl-C, and cancels it if asked to.
fn report_interrupt(
    client: &ApiClient,
    resume_state: &ResumeState,
    args: &BatchArgs,
    terminal: &Terminal,
) -> ExitCode {
    let now = resume_state.reload();
    match now.as_ref().and_then(ResumeState::batch) {
        None => terminal.say("interrupted during the upload; the same command resumes it"),
        Some(id) if args.cancel_on_interrupt => match cancel(client, id, resume_state) {
            Ok(()) => terminal.say(&format!("{id} is cancelled")),
            Err(error) => terminal.complain(&error.to_string()),
        },
        Some(id) => terminal.say(&format!("{id} continues on the server; the same command resumes it")),
    }
    ExitCode::from(INTERRUPTED_EXIT)
}

fn cancel(client: &ApiClient, id: &str, resume_state: &ResumeState) -> Result<(), CliError> {
    client.post(&run::path(id, "/cancel")?, None)?;
    resume_state.forget()
}
