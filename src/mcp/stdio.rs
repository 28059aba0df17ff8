//! A server that is a program in the sandbox, with pipes. Its standard error is logged at debug level.

use super::options::McpServerOptions;
use crate::domain::secret::Redactor;
use crate::ports::{GuestProcess, ProcessSpec, Processes};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};

/// Size of one read from standard error.
const READ_BYTES: usize = 4 * 1024;
/// End of standard error that is kept for error reports.
const TAIL_BYTES: usize = 2 * 1024;

/// Longest logged line of standard error; longer ones are cut.
const LINE_BYTES: usize = 16 * 1024;

/// The end of a program's standard error.
#[derive(Debug, Clone, Default)]
pub(super) struct StderrTail(Arc<Mutex<Vec<u8>>>);

impl StderrTail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(bytes);
        let excess = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
    }

    pub(super) fn text(&self) -> String {
        let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}

/// Splits standard error into whole lines, so that no secret is split and escapes the redaction.
#[derive(Default)]
struct LineBuffer {
    line: Vec<u8>,
    is_cut: bool,
}

impl LineBuffer {
    /// Adds bytes and returns the lines that they complete.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut complete = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let free_bytes = LINE_BYTES.saturating_sub(self.line.len());
            self.is_cut |= part.len() > free_bytes;
            self.line.extend_from_slice(part.get(..free_bytes).unwrap_or(part));
            if part.ends_with(b"\n") {
                complete.push(self.take());
            }
        }
        complete
    }

    /// The incomplete line. The last word of a cut line is removed: it may be half of a secret.
    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.line)).trim_end().to_owned();
        if !std::mem::take(&mut self.is_cut) {
            return text;
        }
        let head = text.rsplit_once(char::is_whitespace).map_or("", |(head, _)| head);
        format!("{head} …")
    }
}

/// A running program. Waiting for its end and killing it happen on blocking threads.
pub(super) struct ServerProcess(Option<Box<dyn GuestProcess>>);

impl ServerProcess {
    /// How the program ended; `None` if it still runs after the timeout.
    pub(super) async fn wait(&mut self, timeout: Duration) -> Option<String> {
        let process = self.0.take()?;
        let waited = tokio::task::spawn_blocking(move || {
            let end = process.ended(timeout);
            (process, end)
        });
        let (process, end) = waited.await.ok()?;
        self.0 = Some(process);
        end
    }

    /// Kills the program with its descendants, and waits for that.
    pub(super) async fn kill(mut self) {
        let process = self.0.take();
        drop(tokio::task::spawn_blocking(move || drop(process)).await);
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let Some(process) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(process))),
            Err(_) => drop(process),
        }
    }
}

/// Starts the program of a server.
pub(super) async fn start(
    name: &str,
    options: &McpServerOptions,
    (spec, processes): (ProcessSpec, Arc<dyn Processes>),
    tail: StderrTail,
) -> Result<(ServerProcess, Receiver, Sender), String> {
    let started = tokio::task::spawn_blocking(move || processes.start(&spec)).await;
    let mut process = started.map_err(|_| "the thread that starts it broke down".to_owned())??;
    let pipes = process.take_pipes().ok_or("its pipes are gone")?;
    let process = ServerProcess(Some(process));
    let unusable = |error: io::Error| format!("its pipes cannot be used: {error}");
    let stdin = Sender::from_file(pipes.stdin).map_err(unusable)?;
    let stdout = Receiver::from_file(pipes.stdout).map_err(unusable)?;
    let stderr = Receiver::from_file(pipes.stderr).map_err(unusable)?;
    tokio::spawn(log_stderr(name.to_owned(), options.clone(), stderr, tail));
    Ok((process, stdout, stdin))
}

/// Reads standard error to its end, so that the program never blocks on it.
async fn log_stderr(name: String, options: McpServerOptions, mut stderr: Receiver, tail: StderrTail) {
    let (mut buffer, mut lines) = (vec![0; READ_BYTES], LineBuffer::default());
    let redactor = Redactor::new(options.secrets());
    let log = |line: String| {
        // Redacted before the tail is cut.
        tail.push(format!("{}\n", redactor.redact(&line)).as_bytes());
        tracing::debug!(server = name, "{}", options.quote(&line));
    };
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        lines.push(buffer.get(..count).unwrap_or_default()).into_iter().for_each(&log);
    }
    Some(lines.take()).filter(|line| !line.is_empty()).into_iter().for_each(log);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_lines_are_logged_whole() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.push(b"key sk-12"), Vec::<String>::new());
        assert_eq!(lines.push(b"345\nnext\nrest"), ["key sk-12345", "next"]);
        assert_eq!((lines.take(), lines.take()), ("rest".to_owned(), String::new()));
        let long = [b"a ".as_slice(), &[b'x'; LINE_BYTES], b"\nb\n"].concat();
        assert_eq!(lines.push(&long), ["a …", "b"], "a cut word is not logged");
    }
}
