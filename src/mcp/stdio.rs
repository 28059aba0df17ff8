//! A server that is a program: started in the sandbox, spoken to through its pipes. Owns the process and what it says on
//! standard error: the log's, at debug, bounded.

use super::options::McpServerOptions;
use super::redact::quote;
use crate::domain::secret::Redactor;
use crate::ports::{GuestProcess, ProcessSpec, Processes};
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Read of standard error at once, bytes.
const PIECE_BYTES: usize = 4 * 1024;
/// Of standard error, what is kept for whoever looks into a failure, bytes.
const TAIL_BYTES: usize = 2 * 1024;

/// Longest line of standard error, bytes; of a longer one, this much is shown.
const LINE_BYTES: usize = 16 * 1024;

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

/// Whole lines, so that no secret is cut in two and shown by halves.
#[derive(Default)]
struct Lines {
    held: Vec<u8>,
    is_full: bool,
}

impl Lines {
    /// The lines that end in this piece.
    fn push(&mut self, piece: &[u8]) -> Vec<String> {
        let mut ended = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.held.len());
            self.is_full |= part.len() > room;
            self.held.extend_from_slice(part.get(..room).unwrap_or(part));
            if part.ends_with(b"\n") {
                ended.push(self.take());
            }
        }
        ended
    }

    /// What has begun. The last word of a line that was cut may be the half of a secret.
    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.held)).trim_end().to_owned();
        if !std::mem::take(&mut self.is_full) {
            return text;
        }
        let head = text.rsplit_once(char::is_whitespace).map_or("", |(head, _)| head);
        format!("{head} …")
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

fn order(options: &McpServerOptions) -> ProcessSpec {
    let environment = options.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
    ProcessSpec {
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
    let (mut piece, mut lines, redactor) =
        (vec![0; PIECE_BYTES], Lines::default(), Redactor::new(options.secrets()));
    let tell = |line: String| {
        // Before it is cut to the last words.
        tail.push(format!("{}\n", redactor.redact(&line)).as_bytes());
        tracing::debug!(server = name, "{}", quote(&line, &options));
    };
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let piece = piece.get(..count).unwrap_or_default();
        lines.push(piece).into_iter().for_each(&tell);
    }
    Some(lines.take()).filter(|line| !line.is_empty()).into_iter().for_each(tell);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_lines_are_told_whole() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"key sk-12"), Vec::<String>::new());
        assert_eq!(lines.push(b"345\nnext\nrest"), ["key sk-12345", "next"]);
        assert_eq!((lines.take(), lines.take()), ("rest".to_owned(), String::new()));
        let long = [b"a ".as_slice(), &[b'x'; LINE_BYTES], b"\nb\n"].concat();
        assert_eq!(lines.push(&long), ["a …", "b"], "a word that was cut is not shown");
    }
}
