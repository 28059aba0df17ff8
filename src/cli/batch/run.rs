//! One run of a batch, across restarts of the server: save the state, upload, save the id, wait, fetch the
//! results, delete the state.

use super::input::BatchInput;
use super::output::{ResultTarget, ResultWriter};
use super::progress::{BatchProgress, BatchResponse};
use super::resume::ResumeState;
use crate::app::system::SystemEntropy;
use crate::cli::client::address::path_segment;
use crate::cli::client::retry::{RequestRetry, RetryError};
use crate::cli::client::{ApiClient, RequestError, refusal};
use crate::cli::error::CliError;
use crate::ports::{CancelToken, Entropy};
use serde::Deserialize;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Seconds for which the server may delay a status response: short while a progress bar is shown.
const WATCHED_WAIT_S: u64 = 1;
const WAIT_S: u64 = 25;

const SERVER_GONE_ADVICE: &str = "the batch is stored there: the same command resumes it";

/// Longest line of a result, bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct BatchArgs {
    /// Jobs, one JSON object a line with name and body; '-' reads stdin
    #[arg(value_name = "FILE.jsonl")]
    pub(super) file: PathBuf,
    /// File for the results, written when complete [default: stdout]
    #[arg(short, long, value_name = "OUT", conflicts_with = "detach")]
    pub(super) output: Option<PathBuf>,
    /// Replace the file for the results if it exists
    #[arg(long)]
    pub(super) force: bool,
    /// Jobs of the batch in the queue at once [default: the server's setting]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) concurrency: Option<u32>,
    /// Print the batch's id and exit; repeat the command without it for the results
    #[arg(long)]
    pub(super) detach: bool,
    /// Cancel the batch on Ctrl-C instead of leaving it running
    #[arg(long, conflicts_with = "detach")]
    pub(super) cancel_on_interrupt: bool,
    /// Start a new batch instead of resuming an interrupted one, or although the file has run to its end
    #[arg(long)]
    pub(super) new: bool,
    /// Print the finished batch as JSON; needs --output or --detach
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) struct BatchCommandRun<'a> {
    pub(super) client: &'a ApiClient,
    /// Cancelled by Ctrl-C.
    pub(super) stop: &'a CancelToken,
    pub(super) progress: &'a BatchProgress,
    pub(super) input: BatchInput,
    /// The saved state of this run.
    pub(super) resume_state: ResumeState,
    pub(super) args: &'a BatchArgs,
    pub(super) target: ResultTarget,
}

impl BatchCommandRun<'_> {
    /// Uploads the lines, or resumes the saved batch, and waits for its end.
    pub(super) fn run(mut self) -> Result<BatchResponse, CliError> {
        let mut batch = match self.resume()? {
            Some(batch) => batch,
            None => self.send()?,
        };
        if self.args.detach {
            return Ok(batch);
        }
        self.progress.begin(batch.request_counts);
        if !batch.has_ended() {
            batch = self.wait(&batch.id)?;
        }
        self.progress.end();
        self.fetch(&batch)?;
        self.resume_state.finish(&self.input)?;
        Ok(batch)
    }

    /// The saved batch, if there is one and the server still has it.
    fn resume(&mut self) -> Result<Option<BatchResponse>, CliError> {
        let Some(id) = self.resume_state.batch.clone() else { return Ok(None) };
        let path = path(&id, "")?;
        let response = self.retry().run(&mut || self.client.get_waiting(&path, Duration::ZERO));
        match response {
            Ok(batch) => {
                let batch = read(batch)?;
                let (total, done) = (batch.request_counts.total, batch.request_counts.done());
                self.progress.info(&format!("{id} goes on: {done} of {total} lines done"));
                Ok(Some(batch))
            }
            Err(RetryError::Refused(404, _)) => {
                self.progress.info(&format!("{id} is no longer on the server: the lines are sent again"));
                self.resume_state.restart(SystemEntropy.random())?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self) -> Result<BatchResponse, CliError> {
        let concurrency = self.args.concurrency.map_or_else(String::new, |n| format!("?concurrency={n}"));
        let path = format!("/v1/batches{concurrency}");
        let (bytes, name) = (self.input.bytes, &self.input.name);
        // The inner result is an error of the file: it is not retried.
        let response = self.retry().run(&mut || {
            let mut body = match self.input.reader() {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let response = self.client.upload(&path, &self.resume_state.key, &mut body, bytes);
            body.failure.map_or_else(|| response.map(Ok), |error| Ok(Err(error)))
        });
        let batch = match response {
            Ok(Ok(batch)) => read(batch)?,
            Ok(Err(error)) => return Err(CliError::failed(format!("cannot read '{name}': {error}"))),
            // The server keeps nothing of a refused upload; the next run is a new batch.
            Err(RetryError::Refused(status, message)) if (400..500).contains(&status) => {
                self.resume_state.delete()?;
                return Err(refusal(status, format!("{name}: {message}")));
            }
            Err(error) => return Err(error.into()),
        };
        self.resume_state.save_batch(&batch.id)?;
        self.progress.info(&format!("{}: {} lines accepted", batch.id, batch.request_counts.total));
        Ok(batch)
    }

    fn wait(&self, id: &str) -> Result<BatchResponse, CliError> {
        let wait_s = if self.progress.is_watched() { WATCHED_WAIT_S } else { WAIT_S };
        let path = path(id, &format!("?wait={wait_s}"))?;
        let mut waiting_for = None;
        loop {
            let wait = Duration::from_secs(wait_s);
            let batch = read(self.retry().run(&mut || self.client.get_waiting(&path, wait))?)?;
            self.progress.show(batch.request_counts);
            if let Some(quota) = batch.waiting_for.as_ref().filter(|_| batch.waiting_for != waiting_for) {
                self.progress.info(&format!("{id} waits: the account's quota {quota} is used up"));
            }
            waiting_for.clone_from(&batch.waiting_for);
            if batch.has_ended() {
                return Ok(batch);
            }
        }
    }

    /// Writes all results. If the stream breaks off, it is read again and written lines are skipped.
    fn fetch(&self, batch: &BatchResponse) -> Result<(), CliError> {
        let path = path(&batch.id, "/results")?;
        let (mut output, mut written) = (self.target.open()?, 0);
        self.retry().run(&mut || {
            let lines = self.client.lines(&path)?;
            copy(lines, &mut written, batch.request_counts.total, &mut output)
        })??;
        Ok(output.finish()?)
    }

    fn retry(&self) -> RequestRetry<'_> {
        let report = Box::new(|text: &str| self.progress.info(text));
        RequestRetry { stop: self.stop, report, hint: SERVER_GONE_ADVICE }
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
        if let Err(error) = output.out.write_all(&line) {
            return Ok(Err(error));
        }
        *written = number;
    }
    Ok(Ok(()))
}

fn read(json: Value) -> Result<BatchResponse, CliError> {
    match BatchResponse::deserialize(&json) {
        Ok(batch) => Ok(BatchResponse { json, ..batch }),
        Err(error) => {
            Err(CliError::failed(format!("the server answered with something that is not a batch: {error}"))
                .hint("is it a NanoClaw server of this version? name another with --server"))
        }
    }
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
    fn p2_an_interrupted_result_download_resumes_at_the_last_full_line() {
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
