//! A server that is a program: started in the sandbox, spoken to through its pipes. Owns the process and what it says on
//! standard error: the log's, at debug, bounded.

use super::options::McpServerOptions;
use super::redact::quote;
use crate::ports::{GuestProcess, ProcessOrder, Processes};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Read of standard error at once, bytes.
const PIECE_BYTES: usize = 4 * 1024;
/// Of standard error, what is kept for whoever looks into a failure, bytes.
const TAIL_BYTES: usize = 2 * 1024;

/// The last words of standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    fn push(&self, piece: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(piece);
        let over = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..over);
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).trim().to_owned()
    }
}

/// A process whose end, which may take a moment, never holds the runtime up.
pub(super) struct Held(Option<Box<dyn GuestProcess>>);

impl Held {
    /// How it ended, if it does within `patience`.
    pub(super) async fn ended(&mut self, patience: Duration) -> Option<String> {
        let process = self.0.take()?;
        let asked = tokio::task::spawn_blocking(move || {
            let end = process.ended(patience);
            (process, end)
        });
        let (process, end) = asked.await.ok()?;
        self.0 = Some(process);
        end
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(mut self) {
        let process = self.0.take();
        drop(tokio::task::spawn_blocking(move || drop(process)).await);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(process) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(process))),
            Err(_) => drop(process),
        }
    }
}

/// Starts a server's program.
pub(super) async fn start(
    name: &str,
    options: &McpServerOptions,
    processes: Arc<dyn Processes>,
    tail: Tail,
) -> Result<(Held, Receiver, Sender), String> {
    let order = order(options);
    let started = tokio::task::spawn_blocking(move || processes.start(&order)).await;
    let mut process = started.map_err(|_| "the thread that starts it broke down".to_owned())??;
    let pipes = process.take_pipes().ok_or("its pipes are gone")?;
    let held = Held(Some(process));
    let stdout = reading(pipes.stdout)?;
    let stdin =
        Sender::from_file(pipes.stdin).map_err(|error| format!("its pipes cannot be used: {error}"))?;
    tokio::spawn(listen(name.to_owned(), options.clone(), reading(pipes.stderr)?, tail));
    Ok((held, stdout, stdin))
}

fn reading(pipe: File) -> Result<Receiver, String> {
    Receiver::from_file(pipe).map_err(|error| format!("its pipes cannot be used: {error}"))
}

fn order(options: &McpServerOptions) -> ProcessOrder {
    let environment = options.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    ProcessOrder {
        program: options.command.clone().unwrap_or_default().into(),
        arguments: options.args.clone(),
        environment: environment.collect(),
        workdir: options.workdir.clone(),
        writable: options.writable,
        readable: options.readable.clone(),
        network: options.network,
    }
}

/// Reads standard error to its end, so that the program never waits for us.
async fn listen(name: String, options: McpServerOptions, mut stderr: Receiver, tail: Tail) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let piece = piece.get(..count).unwrap_or_default();
        tail.push(piece);
        let said = String::from_utf8_lossy(piece);
        tracing::debug!(server = name, "{}", quote(&said, &options));
    }
}
