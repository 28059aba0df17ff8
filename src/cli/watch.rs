//! A job that is watched until its end, or until Ctrl-C: the job goes on then, unless it was asked to end with its watcher.
//! Owns the thread, the interrupt and the last words; refuses to know how an event looks.

use super::client::Client;
use super::error::CliError;
use super::follow::{Follow, Go};
use super::jobs::path_segment;
use super::patience::Patience;
use super::render::Render;
use super::terminal::Terminal;
use crate::app::system::{SystemClock, SystemEntropy};
use crate::app::{INTERRUPTED_EXIT, on_interrupt};
use crate::ports::{CancelReason, CancelToken, Clock, Entropy};
use serde_json::Value;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How soon an interrupt is noticed.
const LOOK: Duration = Duration::from_millis(50);

/// How many such looks an interrupted watcher that ends its job waits for the answer to its submission: ten seconds.
const SETTLING_LOOKS: u32 = 200;

/// What to do when a server that took half of a job does not come back.
const GONE: &str = "whether the job was taken says: nanoclaw jobs";

/// How a job is watched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// One event a line as JSON.
    pub(super) json: bool,
    /// Ctrl-C ends the job, too.
    pub(super) cancel: bool,
}

/// What the watching thread has.
pub(super) struct Watch {
    client: Client,
    terminal: Terminal,
    clock: Arc<dyn Clock>,
    manner: Manner,
    stop: CancelToken,
    seen: Arc<Mutex<Seen>>,
}

/// Where an interrupted watcher would go on.
#[derive(Debug, Clone, Default)]
struct Seen {
    job: Option<String>,
    after: u64,
}

impl Watch {
    /// Hands a job in, once, however often the connection breaks meanwhile.
    pub(super) fn submit(&self, body: &Value) -> Result<Value, CliError> {
        // Nobody has ever answered there: a wrong address more likely than a restart.
        self.client.knock()?;
        let key = format!("{:032x}", SystemEntropy.random());
        let say = |text: &str| self.terminal.say(text);
        let patience = Patience { clock: &*self.clock, stop: &self.stop, say: &say, hint: GONE };
        Ok(patience.ask(&mut || self.client.submit("/v1/jobs", &key, body))?)
    }

    /// Talks to the server.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Shows the job's events after a cursor; fails when the job does.
    pub(super) fn stream(&self, job: &str, after: u64, is_known: bool) -> Result<(), CliError> {
        *self.seen() = Seen { job: Some(job.to_owned()), after };
        let began_ms = self.clock.monotonic_ms();
        let mut render = Render::new(&self.terminal, job, self.manner.json);
        let follow = Follow::new(&self.client, &self.clock, &self.terminal, job, after);
        let follow = if is_known { follow.known() } else { follow };
        follow.run(&mut |event| {
            render.show(event)?;
            self.seen().after = event.seq;
            Ok(Go::On)
        })?;
        render.finish()?;
        if render.has_failed() {
            return Err(CliError::failed("the job ended without an answer")
                .hint(format!("a failed job can go on where it was: nanoclaw retry {job}")));
        }
        if let (Some(summary), false) = (render.summary(), self.manner.json) {
            let seconds = seconds(self.clock.monotonic_ms().saturating_sub(began_ms));
            self.terminal.say(&format!("{job}: {summary}, {seconds} s"));
        }
        Ok(())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// With one digit behind the point.
fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1_000, ms % 1_000 / 100)
}

/// Watches on a thread of its own, until the end or until somebody presses Ctrl-C.
pub(super) fn watch(
    client: &Client,
    terminal: &Terminal,
    manner: Manner,
    work: impl FnOnce(&Watch) -> Result<(), CliError> + Send + 'static,
) -> Result<ExitCode, CliError> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let (stop, seen) = (CancelToken::new(Arc::clone(&clock)), Arc::new(Mutex::new(Seen::default())));
    let watch = Watch {
        client: client.clone(),
        terminal: terminal.twin(),
        clock,
        manner,
        stop: stop.clone(),
        seen: Arc::clone(&seen),
    };
    let interrupted = stop.clone();
    on_interrupt(move || interrupted.cancel(CancelReason::Cancelled))
        .map_err(|error| CliError::failed(format!("cannot listen for Ctrl-C: {error}")))?;
    let (tell, told) = channel();
    let working = move || drop(tell.send(work(&watch)));
    std::thread::Builder::new()
        .name("watch".to_owned())
        .spawn(working)
        .map_err(|error| CliError::failed(format!("cannot start a thread: {error}")))?;
    if let Some(result) = await_end(&told, &stop) {
        return result.map(|()| ExitCode::SUCCESS);
    }
    if manner.cancel {
        settle(&told, &seen);
    }
    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(leave(client, &seen, manner, terminal))
}

/// Waits for the submission that is under way: the job that it makes is to be cancelled, too.
fn settle(told: &Receiver<Result<(), CliError>>, seen: &Mutex<Seen>) {
    for _ in 0..SETTLING_LOOKS {
        if seen.lock().unwrap_or_else(PoisonError::into_inner).job.is_some() {
            return;
        }
        match told.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(_) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The outcome, or nothing when the user has had enough first.
fn await_end(told: &Receiver<Result<(), CliError>>, stop: &CancelToken) -> Option<Result<(), CliError>> {
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Err(_)) | Err(_) if stop.reason().is_some() => return None,
            Ok(result) => return Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Some(Err(CliError::failed("the watching thread died").hint("see: nanoclaw jobs")));
            }
        }
    }
}

/// The last words of a watcher that was interrupted.
fn leave(client: &Client, seen: &Seen, manner: Manner, terminal: &Terminal) -> ExitCode {
    let Seen { job, after } = seen;
    match job {
        None => terminal.say("\ninterrupted while the job was handed in; whether it was taken says: nanoclaw jobs"),
        Some(job) if manner.cancel => match cancel(client, job) {
            Ok(_) => terminal.say(&format!("\n{job} is cancelled")),
            Err(error) => terminal.complain(&error.to_string()),
        },
        Some(job) => terminal.say(&format!(
            "\n{job} goes on at the server; watch it: nanoclaw tail {job} --after {after}, end it: nanoclaw cancel {job}"
        )),
    }
    ExitCode::from(INTERRUPTED_EXIT)
}

/// Asks the server to end a job; the job as it then stands.
pub(super) fn cancel(client: &Client, job: &str) -> Result<Value, CliError> {
    client.post(&format!("/v1/jobs/{}/cancel", path_segment(job)?), None)
}
