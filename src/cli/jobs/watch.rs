//! Watches a job until its end or until Ctrl-C. The job continues after Ctrl-C unless the command was asked
//! to cancel it.

use super::follow::EventFollower;
use super::render::JobRenderer;
use crate::app::system::{SystemClock, SystemEntropy};
use crate::cli::client::ApiClient;
use crate::cli::client::address::path_segment;
use crate::cli::client::retry::RequestRetry;
use crate::cli::error::CliError;
use crate::cli::interrupt::{exit_on_interrupt, unless_interrupted};
use crate::cli::terminal::Terminal;
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use serde_json::Value;
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
        let (client, terminal) = (self.client, self.terminal);
        EventFollower { client, clock, terminal, job, after, is_known }.run(&mut |event| {
            render.show(event)?;
            show_position(event.seq);
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
