//! One run of a batch, across restarts of the server: save the state, upload, save the id, wait, fetch the
//! results, delete the state.

use super::input::BatchInput;
use super::output::{ResultTarget, ResultWriter};
use super::progress::{BatchLineCounts, BatchProgress, BatchResponse};
use super::resume::ResumeState;
use crate::cli::client::address::path_segment;
use crate::cli::client::retry::{RequestRetry, RetryError};
use crate::cli::client::{ApiClient, RequestError, refusal};
use crate::cli::error::CliError;
use crate::ports::{CancelToken, Clock, Entropy};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

/// Seconds for which the server may delay a status response: short while a progress bar is shown.
const WATCHED_WAIT_S: u64 = 1;
const WAIT_S: u64 = 25;

const SERVER_GONE_ADVICE: &str = "the batch is stored there: the same command resumes it";

/// Longest line of a result, bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone)]
pub(super) struct BatchRunOptions {
    /// Jobs in the queue at once; `None` for the setting of the server.
    pub(super) concurrency: Option<u32>,
    /// Exit after the upload.
    pub(super) detach: bool,
    pub(super) target: ResultTarget,
}

/// Everything that the thread of the run needs.
pub(super) struct BatchCommandRun {
    pub(super) client: ApiClient,
    pub(super) clock: Arc<dyn Clock>,
    /// For a new idempotency key, if the batch of the saved one is gone.
    pub(super) entropy: Arc<dyn Entropy>,
    /// Cancelled by Ctrl-C.
    pub(super) stop: CancelToken,
    pub(super) progress: BatchProgress,
    pub(super) input: BatchInput,
    /// The saved state of this run.
    pub(super) resume_state: ResumeState,
    pub(super) options: BatchRunOptions,
}

impl BatchCommandRun {
    /// Uploads the lines, or resumes the saved batch, and waits for its end. Returns the batch as parsed
    /// and as sent.
    pub(super) fn run(mut self) -> Result<(BatchResponse, Value), CliError> {
        let (response, batch) = match self.resume()? {
            Some(found) => found,
            None => self.send()?,
        };
        if self.options.detach {
            return Ok((response, batch));
        }
        self.progress.begin(response.request_counts);
        let (response, batch) = if response.has_ended() { (response, batch) } else { self.wait(&response)? };
        self.progress.end();
        self.fetch(&response)?;
        self.resume_state.forget()?;
        Ok((response, batch))
    }

    /// The saved batch, if there is one and the server still has it.
    fn resume(&mut self) -> Result<Option<(BatchResponse, Value)>, CliError> {
        let Some(id) = self.resume_state.batch().map(str::to_owned) else { return Ok(None) };
        let path = path(&id, "")?;
        let say = |text: &str| self.progress.say(text);
        let found = self.retry(&say).run(&mut || self.client.get_waiting(&path, Duration::ZERO));
        match found {
            Ok(batch) => {
                let response = read(&batch)?;
                let BatchLineCounts { total, .. } = response.request_counts;
                let done = response.request_counts.done();
                self.progress.say(&format!("{id} goes on: {done} of {total} lines done"));
                Ok(Some((response, batch)))
            }
            Err(RetryError::Refused { status: 404, .. }) => {
                self.progress.say(&format!("{id} is no longer on the server: the lines are sent again"));
                self.resume_state.renew(self.entropy.random())?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self) -> Result<(BatchResponse, Value), CliError> {
        let concurrency = self.options.concurrency.map_or_else(String::new, |n| format!("?concurrency={n}"));
        let path = format!("/v1/batches{concurrency}");
        let say = |text: &str| self.progress.say(text);
        let retry =
            RequestRetry { clock: &*self.clock, stop: &self.stop, say: &say, hint: SERVER_GONE_ADVICE };
        let (bytes, name) = (self.input.bytes, self.input.name.clone());
        // The inner result is an error of the file: it is not retried.
        let sent = retry.run(&mut || {
            let mut body = match self.input.reader() {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let sent = self.client.upload(&path, self.resume_state.key(), &mut body, bytes);
            body.failure.map_or_else(|| sent.map(Ok), |error| Ok(Err(error)))
        });
        let batch = match sent {
            Ok(Ok(batch)) => batch,
            Ok(Err(error)) => return Err(CliError::failed(format!("cannot read '{name}': {error}"))),
            // The server keeps nothing of a refused upload; the next run is a new batch.
            Err(RetryError::Refused { status, message }) if (400..500).contains(&status) => {
                self.resume_state.forget()?;
                return Err(refusal(status, format!("{name}: {message}")));
            }
            Err(error) => return Err(error.into()),
        };
        let response = read(&batch)?;
        self.resume_state.keep(&response.id)?;
        let BatchLineCounts { total, .. } = response.request_counts;
        self.progress.say(&format!("{}: {total} lines accepted", response.id));
        Ok((response, batch))
    }

    fn wait(&self, response: &BatchResponse) -> Result<(BatchResponse, Value), CliError> {
        let wait_s = if self.progress.is_watched() { WATCHED_WAIT_S } else { WAIT_S };
        let path = path(&response.id, &format!("?wait={wait_s}"))?;
        let say = |text: &str| self.progress.say(text);
        loop {
            let wait = Duration::from_secs(wait_s);
            let batch = self.retry(&say).run(&mut || self.client.get_waiting(&path, wait))?;
            let response = read(&batch)?;
            self.progress.show(response.request_counts);
            if response.has_ended() {
                return Ok((response, batch));
            }
        }
    }

    /// Writes all results. If the stream breaks off, it is read again and written lines are skipped.
    fn fetch(&self, response: &BatchResponse) -> Result<(), CliError> {
        let path = path(&response.id, "/results")?;
        let (mut output, mut written) = (self.options.target.open()?, 0);
        let say = |text: &str| self.progress.say(text);
        self.retry(&say).run(&mut || {
            let lines = self.client.lines(&path)?;
            copy(lines, &mut written, response.request_counts.total, &mut output)
        })??;
        Ok(output.finish()?)
    }

    fn retry<'a>(&'a self, say: &'a dyn Fn(&str)) -> RequestRetry<'a> {
        RequestRetry { clock: &*self.clock, stop: &self.stop, say, hint: SERVER_GONE_ADVICE }
    }
}

/// Writes the lines after the written ones. The inner result is an error of the output: it is not retried.
fn copy(
    lines: Box<dyn Read>,
    written: &mut u64,
    total: u64,
    output: &mut ResultWriter,
) -> Result<io::Result<()>, RequestError> {
    let broke_off = || RequestError::Unavailable("the results broke off".to_owned());
    let mut lines = BufReader::new(lines);
    for number in 1..=total {
        let mut line = Vec::new();
        let read = (&mut lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if read.is_err() || line.last() != Some(&b'\n') {
            return Err(broke_off());
        }
        if number <= *written {
            continue;
        }
        if let Err(error) = output.write(&line) {
            return Ok(Err(error));
        }
        *written = number;
    }
    Ok(Ok(()))
}

fn read(batch: &Value) -> Result<BatchResponse, CliError> {
    serde_json::from_value(batch.clone()).map_err(|error| {
        CliError::failed(format!("the server answered with something that is not a batch: {error}"))
            .hint("is it a NanoClaw server of this version? name another with --server")
    })
}

/// The batch's path, if its id can stand in a path unescaped.
pub(super) fn path(id: &str, rest: &str) -> Result<String, CliError> {
    Ok(format!("/v1/batches/{}{rest}", path_segment(id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> (tempfile::TempDir, std::path::PathBuf, ResultWriter) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        let output = ResultTarget::File(path.clone()).open().expect("opened");
        (dir, path, output)
    }

    #[test]
    fn p2_results_that_break_off_continue_where_they_were() {
        let (_dir, path, mut output) = target();
        let mut written = 0;
        for text in ["1\n2\n3", "1\n", ""] {
            let torn = copy(Box::new(text.as_bytes()), &mut written, 4, &mut output);
            assert!(matches!(torn, Err(RequestError::Unavailable(_))), "{text}");
            assert_eq!(written, 2, "{text}");
        }
        let whole = copy(Box::new(&b"1\n2\n3\n4\n"[..]), &mut written, 4, &mut output);
        whole.expect("whole").expect("written");
        assert!(!path.exists(), "nothing is seen before all is there");
        output.finish().expect("in its target");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "1\n2\n3\n4\n");
    }
}
