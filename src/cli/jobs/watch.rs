//! Watches a job until its end or until Ctrl-C. The job continues after Ctrl-C unless the command was asked
//! to cancel it.

use super::follow::EventFollower;
use super::render::JobRenderer;
use crate::app::system::{SystemClock, SystemEntropy};
use crate::app::{INTERRUPTED_EXIT, on_interrupt};
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::client::retry::RequestRetry;
use crate::cli::error::CliError;
use crate::cli::terminal::Terminal;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use serde_json::Value;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Time between two checks for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Checks after Ctrl-C while a submission is under way and its job is to be cancelled: ten seconds.
const SETTLE_POLLS: u32 = 200;

/// Advice if the server disappears during a submission.
const UNKNOWN_OUTCOME: &str = "see whether it was accepted: nanoclaw jobs";

#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchOptions {
    /// Print one event a line as JSON.
    pub(crate) json: bool,
    /// Cancel the job on Ctrl-C.
    pub(crate) cancel: bool,
}

/// The state of the watching thread.
pub(crate) struct JobWatch {
    client: ApiClient,
    terminal: Terminal,
    clock: Arc<dyn Clock>,
    options: WatchOptions,
    stop: CancelToken,
    position: Arc<Mutex<WatchPosition>>,
}

/// The job and the last shown event.
#[derive(Debug, Clone, Default)]
struct WatchPosition {
    job: Option<String>,
    after: u64,
}

impl JobWatch {
    /// Submits a job once, however often the connection breaks.
    pub(crate) fn submit(&self, body: &Value) -> Result<Value, CliError> {
        // Without any response so far, the address is probably wrong: no retry.
        self.client.check_reachable()?;
        let key = format!("{:032x}", SystemEntropy.random());
        let say = |text: &str| self.terminal.say(text);
        let retry = RequestRetry { clock: &*self.clock, stop: &self.stop, say: &say, hint: UNKNOWN_OUTCOME };
        Ok(retry.run(&mut || self.client.submit("/v1/jobs", &key, body))?)
    }

    pub(crate) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// Shows the job's events after a cursor. Fails if the job fails.
    pub(crate) fn stream(&self, job: &str, after: u64, is_known: bool) -> Result<(), CliError> {
        *self.position() = WatchPosition { job: Some(job.to_owned()), after };
        let began_ms = self.clock.monotonic_ms();
        let mut render = JobRenderer::new(&self.terminal, job, self.options.json);
        let follow = EventFollower::new(&self.client, &self.clock, &self.terminal, job, after);
        let follow = if is_known { follow.known() } else { follow };
        follow.run(&mut |event| {
            render.show(event)?;
            self.position().after = event.seq;
            Ok(ControlFlow::Continue(()))
        })?;
        render.finish()?;
        if render.has_failed() {
            return Err(CliError::failed("the job ended without an answer")
                .hint(format!("continue a failed job where it stopped: nanoclaw retry {job}")));
        }
        if let (Some(summary), false) = (render.summary(), self.options.json) {
            let seconds = seconds(self.clock.monotonic_ms().saturating_sub(began_ms));
            self.terminal.say(&format!("{job}: {summary}, {seconds} s"));
        }
        Ok(())
    }

    fn position(&self) -> std::sync::MutexGuard<'_, WatchPosition> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Seconds with one decimal.
fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1_000, ms % 1_000 / 100)
}

/// Runs `work` on its own thread, until its end or until Ctrl-C.
pub(crate) fn watch(
    client: &ApiClient,
    terminal: &Terminal,
    options: WatchOptions,
    work: impl FnOnce(&JobWatch) -> Result<(), CliError> + Send + 'static,
) -> Result<ExitCode, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stop, position) =
        (CancelToken::new(Arc::clone(&clock)), Arc::new(Mutex::new(WatchPosition::default())));
    let watch = JobWatch {
        client: client.clone(),
        terminal: terminal.twin(),
        clock,
        options,
        stop: stop.clone(),
        position: Arc::clone(&position),
    };
    let interrupted = stop.clone();
    on_interrupt(move || interrupted.cancel(CancelReason::Cancelled))
        .map_err(|error| CliError::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    let (result_sender, result_receiver) = channel();
    let working = move || drop(result_sender.send(work(&watch)));
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(working)
        .map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    if let Some(result) = await_end(&result_receiver, &stop) {
        return result.map(|()| ExitCode::SUCCESS);
    }
    if options.cancel {
        settle(&result_receiver, &position);
    }
    let position = position.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(report_interrupt(client, &position, options, terminal))
}

/// Waits for the submission that is under way: its job has to be cancelled too.
fn settle(result_receiver: &Receiver<Result<(), CliError>>, position: &Mutex<WatchPosition>) {
    for _ in 0..SETTLE_POLLS {
        if position.lock().unwrap_or_else(PoisonError::into_inner).job.is_some() {
            return;
        }
        match result_receiver.recv_timeout(POLL_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The result of the thread. `None` after Ctrl-C.
fn await_end(
    result_receiver: &Receiver<Result<(), CliError>>,
    stop: &CancelToken,
) -> Option<Result<(), CliError>> {
    loop {
        match result_receiver.recv_timeout(POLL_INTERVAL) {
            Ok(Err(_)) | Err(_) if stop.reason().is_some() => return None,
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(
                    Err(CliError::failed("the watching thread panicked").hint("see: nanoclaw jobs")),
                );
            }
        }
    }
}

/// Says what happens to the job after Ctrl-C, and cancels it if asked to.
fn report_interrupt(
    client: &ApiClient,
    position: &WatchPosition,
    options: WatchOptions,
    terminal: &Terminal,
) -> ExitCode {
    let WatchPosition { job, after } = position;
    match job {
        None => terminal.say("\ninterrupted while the job was submitted; whether it was taken says: nanoclaw jobs"),
        Some(job) if options.cancel => match cancel(client, job) {
            Ok(_) => terminal.say(&format!("\n{job} is cancelled")),
            Err(error) => terminal.complain(&error.to_string()),
        },
        Some(job) => terminal.say(&format!(
            "\n{job} continues on the server; watch it: nanoclaw tail {job} --after {after}, end it: nanoclaw cancel {job}"
        )),
    }
    ExitCode::from(INTERRUPTED_EXIT)
}

/// Cancels a job and returns it.
pub(crate) fn cancel(client: &ApiClient, job: &str) -> Result<Value, CliError> {
    client.post(&format!("/v1/jobs/{}/cancel", path_segment(job)?), None)
}
