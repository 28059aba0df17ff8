//! `nanoclaw batch`: a file of lines becomes a batch, its results a file. Owns the arguments, the interrupt and the exit
//! codes; an interrupted call leaves the batch running, and the same command picks it up.

mod bookmark;
mod call;
mod output;
mod progress;
mod source;

use super::client::Client;
use super::error::CliError;
use super::terminal::Terminal;
use crate::app::system::{SystemClock, SystemEntropy};
use crate::app::{INTERRUPTED_EXIT, on_interrupt};
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use bookmark::Bookmark;
use call::{Call, Wish};
use output::Place;
use progress::{Progress, Standing};
use serde_json::Value;
use source::Source;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How soon an interrupt is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// What `batch` was asked.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct BatchArgs {
    /// One job a line, as JSON with its name and body; '-' reads them from stdin
    #[arg(value_name = "FILE.jsonl")]
    pub(super) file: PathBuf,
    /// Write the results here, once they are whole, instead of stdout
    #[arg(short, long, value_name = "OUT", conflicts_with = "detach")]
    pub(super) output: Option<PathBuf>,
    /// Jobs of the batch in the queue at once; the server's own number when absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) concurrency: Option<u32>,
    /// Print the batch's id and leave; the same command without it fetches the results
    #[arg(long)]
    pub(super) detach: bool,
    /// Cancel the batch on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    pub(super) cancel_on_interrupt: bool,
    /// Start another batch even if an interrupted call has left one
    #[arg(long)]
    pub(super) new: bool,
    /// Print the batch as JSON at its end; needs --output or --detach
    #[arg(long)]
    pub(super) json: bool,
}

/// Runs the batch to its end, or until somebody presses Ctrl-C.
pub(super) fn batch(
    client: &Client,
    state_home: Option<PathBuf>,
    args: &BatchArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    if args.json && args.output.is_none() && !args.detach {
        return Err(CliError::usage("--json and the results would share stdout")
            .hint("give the results a file: --output OUT"));
    }
    let folder = Bookmark::folder(state_home)?;
    let source = Source::open(&args.file, &folder)?;
    let place = Place::find(args.output.as_deref(), &source)?;
    let entropy = Arc::new(SystemEntropy);
    let bookmark = remember(client, &folder, &source, args.new, &*entropy)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stop, progress) = (CancelToken::new(Arc::clone(&clock)), Progress::new(terminal));
    let call = Call {
        client: client.clone(),
        clock,
        entropy,
        stop: stop.clone(),
        progress: progress.twin(),
        source,
        bookmark: bookmark.clone(),
        wish: Wish { concurrency: args.concurrency, detach: args.detach, place },
    };
    let interrupted = stop.clone();
    on_interrupt(move || interrupted.cancel(CancelReason::Cancelled))
        .map_err(|error| CliError::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    let (tell, told) = channel();
    let working =
        std::thread::Builder::new().name("batch".to_owned()).spawn(move || drop(tell.send(call.run())));
    working.map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    let result = await_end(&told, &stop);
    progress.end();
    match result {
        Some(result) => result.and_then(|(standing, batch)| report(&standing, &batch, args, terminal)),
        None => Ok(leave(client, &bookmark, args, terminal)),
    }
}

/// What an earlier call has left, or a new bookmark. A server that nobody has ever spoken to is knocked at first: a wrong
/// address more likely than a restart.
fn remember(
    client: &Client,
    folder: &std::path::Path,
    source: &Source,
    anew: bool,
    entropy: &dyn Entropy,
) -> Result<Bookmark, CliError> {
    let path = Bookmark::path(folder, client.base(), source);
    let found = if anew { None } else { Bookmark::find(&path)? };
    found.map_or_else(
        || {
            client.knock()?;
            Bookmark::begin(path, client.base(), source, entropy.random())
        },
        Ok,
    )
}

type Outcome = Result<(Standing, Value), CliError>;

/// The call's outcome, or nothing when the user has had enough first.
fn await_end(told: &Receiver<Outcome>, stop: &CancelToken) -> Option<Outcome> {
    loop {
        let is_stopped = stop.reason().is_some();
        match told.recv_timeout(LOOK) {
            Ok(Ok(end)) => return Some(Ok(end)),
            _ if is_stopped || stop.reason().is_some() => return None,
            Ok(Err(error)) => return Some(Err(error)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(
                    CliError::failed("the batch's thread died").hint("the same command goes on")
                ));
            }
        }
    }
}

/// The last words of a call that has seen the batch to its end, or that does not wait for it.
fn report(
    standing: &Standing,
    batch: &Value,
    args: &BatchArgs,
    terminal: &Terminal,
) -> Result<ExitCode, CliError> {
    if args.json {
        terminal.line(&batch.to_string())?;
    } else if args.detach {
        terminal.line(&standing.id)?;
    }
    if args.detach {
        terminal.say("the same command without --detach waits for the results");
        return Ok(ExitCode::SUCCESS);
    }
    let counts = standing.request_counts;
    let into = args.output.as_ref().map_or_else(String::new, |out| format!(": {}", out.display()));
    terminal.say(&format!(
        "{} {}, {} lines succeeded, {} failed{into}",
        standing.id, standing.status, counts.completed, counts.failed
    ));
    if counts.failed == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    Err(CliError::failed(format!("{} of {} lines failed", counts.failed, counts.total))
        .hint("'error' in a result says why"))
}

/// The last words of a call that was interrupted.
fn leave(client: &Client, bookmark: &Bookmark, args: &BatchArgs, terminal: &Terminal) -> ExitCode {
    let now = bookmark.again();
    match now.as_ref().and_then(Bookmark::batch) {
        None => terminal.say("interrupted while the lines were sent; the same command goes on"),
        Some(id) if args.cancel_on_interrupt => match cancel(client, id, bookmark) {
            Ok(()) => terminal.say(&format!("{id} is cancelled")),
            Err(error) => terminal.complain(&error.to_string()),
        },
        Some(id) => terminal.say(&format!("{id} goes on at the server; the same command picks it up again")),
    }
    ExitCode::from(INTERRUPTED_EXIT)
}

fn cancel(client: &Client, id: &str, bookmark: &Bookmark) -> Result<(), CliError> {
    client.post(&call::path(id, "/cancel")?, None)?;
    bookmark.forget()
}
