//! Watches a job until its end or until Ctrl-C. The job continues after Ctrl-C unless the command was asked
//! to cancel it.

use super::follow::{ClientEvent, EventFollower, Update};
use super::render::JobRenderer;
use crate::app::system::{SystemClock, SystemEntropy};
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::client::retry::RequestRetry;
use crate::cli::error::CliError;
use crate::cli::interrupt::{exit_on_interrupt, unless_interrupted};
use crate::cli::terminal::Terminal;
use crate::cli::terminal::progress::TaskProgress;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use serde_json::{Value, json};
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after Ctrl-C for a submission that is under way, if its job is to be cancelled.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Advice if the server disappears during a submission.
const UNKNOWN_OUTCOME: &str = "see whether it was accepted: nanoclaw jobs";

#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchOptions {
    /// Print one event a line as JSON.
    pub(crate) json: bool,
    /// Cancel the job on Ctrl-C.
    pub(crate) cancel: bool,
}

pub(crate) struct JobWatch<'a> {
    client: &'a ApiClient,
    terminal: &'a Terminal,
    json: bool,
    /// Cancelled by Ctrl-C.
    stop: CancelToken,
    /// Cancelled once the job is known, or will never be.
    settled: CancelToken,
    /// The watched job and its last shown event.
    position: Position,
}

type Position = Arc<Mutex<Option<(String, u64)>>>;

fn locked(position: &Position) -> MutexGuard<'_, Option<(String, u64)>> {
    position.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JobWatch<'_> {
    /// Submits a job once, however often the connection breaks.
    pub(crate) fn submit(&self, body: &Value) -> Result<Value, CliError> {
        // Without any response so far, the address is probably wrong: no retry.
        self.client.check_reachable()?;
        let key = format!("{:032x}", SystemEntropy.random());
        let report = Box::new(|text: &str| self.terminal.info(text));
        let retry = RequestRetry { stop: &self.stop, report, hint: UNKNOWN_OUTCOME };
        Ok(retry.run(&mut || self.client.submit("/v1/jobs", &key, body))?)
    }

    /// Shows the job's events after a cursor. Fails if the job fails.
    pub(crate) fn stream(&self, job: &str, after: u64, is_known: bool) -> Result<(), CliError> {
        let show_position = |seq| *locked(&self.position) = Some((job.to_owned(), seq));
        show_position(after);
        self.settled.cancel(CancelReason::Cancelled);
        let clock = self.stop.clock();
        let began_ms = clock.monotonic_ms();
        let mut render = JobRenderer::new(self.terminal, job, self.json);
        let mut spinner = Some(TaskProgress::time("waiting for the model", self.terminal));
        EventFollower { client: self.client, clock, job, after, is_known }.run(&mut |update| {
            if !matches!(update, Update::Event(event) if is_silent(event)) {
                drop(spinner.take());
            }
            render.update(update)?;
            if let Update::Event(event) = update {
                show_position(event.seq);
                if let Some(calls) = waiting_calls(event) {
                    self.ask_approval(job, &calls)?;
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        render.finish()?;
        if render.has_failed() {
            return Err(CliError::failed("the job ended without an answer")
                .hint(format!("continue a failed job where it stopped: nanoclaw retry {job}")));
        }
        if let (Some(summary), false) = (render.summary(), self.json) {
            let ms = clock.monotonic_ms().saturating_sub(began_ms);
            self.terminal.info(&format!("{job}: {summary}, {}.{} s", ms / 1_000, ms % 1_000 / 100));
        }
        Ok(())
    }
}

impl JobWatch<'_> {
    /// Forgets the job that has ended: Ctrl-C says nothing about it.
    pub(crate) fn rest(&self) {
        *locked(&self.position) = Some((String::new(), 0));
    }

    /// Asks a person at the terminal about these calls, which were shown. Without a person, and in events of
    /// the past, nothing is asked.
    fn ask_approval(&self, job: &str, calls: &[&str]) -> Result<(), CliError> {
        if self.json || !self.terminal.is_watched() || !io::stdin().is_terminal() {
            return Ok(());
        }
        let path = format!("/v1/jobs/{}", path_segment(job)?);
        if !still_wait(&self.client.get(&path)?, calls) {
            return Ok(());
        }
        self.terminal.prompt("allow the calls? [y/N] ");
        let Some(line) = typed_line()? else { return Ok(()) };
        let is_allowed = matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        let decision = if is_allowed { "approve" } else { "deny" };
        // Somebody else may have decided meanwhile.
        if let Err(error) = self.client.post(&format!("{path}/{decision}"), Some(&json!({"calls": calls}))) {
            self.terminal.error(&error.to_string());
        }
        Ok(())
    }
}

/// A line of stdin; `None` at its end.
pub(crate) fn typed_line() -> Result<Option<String>, CliError> {
    let mut line = String::new();
    let count = io::stdin().read_line(&mut line).map_err(|error| {
        CliError::failed(format!("cannot read a line from stdin: {error}")).hint("a line is UTF-8 text")
    })?;
    Ok((count > 0).then_some(line))
}

/// Whether the event shows nothing: the job still waits for its first token.
fn is_silent(event: &ClientEvent) -> bool {
    let status = event.data.get("status").and_then(Value::as_str);
    event.name == "status" && matches!(status, Some("queued" | "running"))
}

/// The calls that a job begins to wait for.
fn waiting_calls(event: &ClientEvent) -> Option<Vec<&str>> {
    let is_waiting = event.data.get("status").is_some_and(|status| status == "waiting_approval");
    let calls = event.data.get("calls").filter(|_| event.name == "status" && is_waiting)?.as_array()?;
    Some(calls.iter().filter_map(Value::as_str).collect())
}

/// Whether the job waits for all of these calls.
fn still_wait(job: &Value, calls: &[&str]) -> bool {
    let waiting = job.pointer("/approval/calls").and_then(Value::as_array);
    let ids: Vec<&str> =
        waiting.into_iter().flatten().filter_map(|call| call.get("id_ref")?.as_str()).collect();
    !calls.is_empty() && calls.iter().all(|call| ids.contains(call))
}

/// Runs `work` until its end or until Ctrl-C.
pub(crate) fn watch(
    client: &ApiClient,
    terminal: &Terminal,
    options: WatchOptions,
    work: impl FnOnce(&JobWatch) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stop, settled) = (CancelToken::new(Arc::clone(&clock)), CancelToken::new(clock));
    let position = Position::default();
    let report = {
        let (client, terminal) = (client.clone(), terminal.clone());
        let (settled, position) = (settled.clone(), Arc::clone(&position));
        move || {
            if options.cancel {
                settled.wait(SETTLE_TIMEOUT);
            }
            let position = locked(&position).clone();
            report_interrupt(&client, position, options.cancel, &terminal);
        }
    };
    exit_on_interrupt(&stop, report)?;
    let watch = JobWatch { client, terminal, json: options.json, stop, settled, position };
    let result = work(&watch);
    watch.settled.cancel(CancelReason::Cancelled);
    unless_interrupted(result, &watch.stop)
}

/// Says what happens to the job after Ctrl-C, and cancels it if asked to.
fn report_interrupt(
    client: &ApiClient,
    position: Option<(String, u64)>,
    is_to_cancel: bool,
    terminal: &Terminal,
) {
    match position {
        None => terminal.info(
            "\ninterrupted while the job was submitted; whether it was taken says: nanoclaw jobs",
        ),
        // Between two questions of a chat.
        Some((job, _)) if job.is_empty() => {}
        Some((job, _)) if is_to_cancel => match cancel(client, &job) {
            Ok(_) => terminal.info(&format!("\n{job} is cancelled")),
            Err(error) => terminal.error(&error.to_string()),
        },
        Some((job, after)) => terminal.info(&format!(
            "\n{job} continues on the server; watch it: nanoclaw tail {job} --after {after}, end it: nanoclaw cancel {job}"
        )),
    }
}

/// Cancels a job and returns it.
pub(crate) fn cancel(client: &ApiClient, job: &str) -> Result<Value, CliError> {
    client.post(&format!("/v1/jobs/{}/cancel", path_segment(job)?), None)
}
