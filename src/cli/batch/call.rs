//! One call from the upload to the results, across whatever happens to the server in between. Owns the order: remember,
//! send, remember the id, wait, fetch, forget.

use super::bookmark::Bookmark;
use super::output::{Output, Place};
use super::progress::{Counts, Progress, Standing};
use super::source::Source;
use crate::cli::client::{Client, Trouble, refusal};
use crate::cli::error::CliError;
use crate::cli::jobs::path_segment;
use crate::cli::patience::{Error, Patience};
use crate::ports::{CancelToken, Clock, Entropy};
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

/// How long the server is asked to hold an answer back: often enough for a bar to move, else rarely.
const WATCHED_WAIT_S: u64 = 1;
const WAIT_S: u64 = 25;

/// What to do when the server does not come back.
const GONE: &str = "the batch is safe there: the same command goes on with it";

/// Longest line of a result, bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;

/// What is asked for.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    /// Jobs in the queue at once, if not the server's own number.
    pub(super) concurrency: Option<u32>,
    /// Whether nobody waits for the results.
    pub(super) detach: bool,
    /// Where the results go.
    pub(super) place: Place,
}

/// What one call needs; it moves to a thread of its own.
pub(super) struct Call {
    /// Talks to the server.
    pub(super) client: Client,
    /// Counts the time.
    pub(super) clock: Arc<dyn Clock>,
    /// For another key, when the first one's batch is gone.
    pub(super) entropy: Arc<dyn Entropy>,
    /// Raised when the user has had enough.
    pub(super) stop: CancelToken,
    /// Shows how far it is.
    pub(super) progress: Progress,
    /// The lines.
    pub(super) source: Source,
    /// Where the call is remembered.
    pub(super) bookmark: Bookmark,
    /// What is asked for.
    pub(super) wish: Wish,
}

impl Call {
    /// Sends the lines, or picks up the batch of an earlier call, and sees it to its end. Returns the batch as it then is.
    pub(super) fn run(mut self) -> Result<(Standing, Value), CliError> {
        let (standing, batch) = match self.pick_up()? {
            Some(found) => found,
            None => self.send()?,
        };
        if self.wish.detach {
            return Ok((standing, batch));
        }
        self.progress.begin(standing.request_counts);
        let (standing, batch) = if standing.has_ended() { (standing, batch) } else { self.wait(&standing)? };
        self.progress.end();
        self.fetch(&standing)?;
        self.bookmark.forget()?;
        Ok((standing, batch))
    }

    /// The batch of an earlier call, if there is one and the server still has it.
    fn pick_up(&mut self) -> Result<Option<(Standing, Value)>, CliError> {
        let Some(id) = self.bookmark.batch().map(str::to_owned) else { return Ok(None) };
        let path = path(&id, "")?;
        let say = |text: &str| self.progress.say(text);
        let found = self.patience(&say).ask(&mut || self.client.look(&path, Duration::ZERO));
        match found {
            Ok(batch) => {
                let standing = read(&batch)?;
                let Counts { total, .. } = standing.request_counts;
                let done = standing.request_counts.done();
                self.progress.say(&format!("{id} goes on: {done} of {total} lines done"));
                Ok(Some((standing, batch)))
            }
            Err(Error::Refused { status: 404, .. }) => {
                self.progress.say(&format!("{id} is no longer on the server: the lines are sent anew"));
                self.bookmark.renew(self.entropy.random())?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self) -> Result<(Standing, Value), CliError> {
        let concurrency = self.wish.concurrency.map_or_else(String::new, |n| format!("?concurrency={n}"));
        let path = format!("/v1/batches{concurrency}");
        let say = |text: &str| self.progress.say(text);
        let patience = Patience { clock: &*self.clock, stop: &self.stop, say: &say, hint: GONE };
        let (bytes, name) = (self.source.bytes, self.source.name.clone());
        // The inner error is the file's, which no second try mends.
        let sent = patience.ask(&mut || {
            let mut body = match self.source.reader() {
                Ok(body) => body,
                Err(error) => return Ok(Err(error)),
            };
            let sent = self.client.upload(&path, self.bookmark.key(), &mut body, bytes);
            body.failure.map_or_else(|| sent.map(Ok), |error| Ok(Err(error)))
        });
        let batch = match sent {
            Ok(Ok(batch)) => batch,
            Ok(Err(error)) => return Err(CliError::failed(format!("cannot read '{name}': {error}"))),
            // The server keeps nothing of what it refuses; the next call sends other lines.
            Err(Error::Refused { status, message }) if (400..500).contains(&status) => {
                self.bookmark.forget()?;
                return Err(refusal(status, format!("{name}: {message}")));
            }
            Err(error) => return Err(error.into()),
        };
        let standing = read(&batch)?;
        self.bookmark.keep(&standing.id)?;
        let Counts { total, .. } = standing.request_counts;
        self.progress.say(&format!("{}: {total} lines accepted", standing.id));
        Ok((standing, batch))
    }

    fn wait(&self, standing: &Standing) -> Result<(Standing, Value), CliError> {
        let wait_s = if self.progress.is_watched() { WATCHED_WAIT_S } else { WAIT_S };
        let path = path(&standing.id, &format!("?wait={wait_s}"))?;
        let say = |text: &str| self.progress.say(text);
        loop {
            let held = Duration::from_secs(wait_s);
            let batch = self.patience(&say).ask(&mut || self.client.look(&path, held))?;
            let standing = read(&batch)?;
            self.progress.show(standing.request_counts);
            if standing.has_ended() {
                return Ok((standing, batch));
            }
        }
    }

    /// Writes all results. A stream that breaks off is asked for again; lines that were written are passed over.
    fn fetch(&self, standing: &Standing) -> Result<(), CliError> {
        let path = path(&standing.id, "/results")?;
        let (mut output, mut written) = (self.wish.place.open()?, 0);
        let say = |text: &str| self.progress.say(text);
        self.patience(&say).ask(&mut || {
            let lines = self.client.lines(&path)?;
            copy(lines, &mut written, standing.request_counts.total, &mut output)
        })??;
        Ok(output.finish()?)
    }

    fn patience<'a>(&'a self, say: &'a dyn Fn(&str)) -> Patience<'a> {
        Patience { clock: &*self.clock, stop: &self.stop, say, hint: GONE }
    }
}

/// Writes the lines beyond those that were written. The inner error is the output's, which no second try mends.
fn copy(
    lines: Box<dyn Read>,
    written: &mut u64,
    total: u64,
    output: &mut Output,
) -> Result<io::Result<()>, Trouble> {
    let broke_off = || Trouble::Away("the results broke off".to_owned());
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

fn read(batch: &Value) -> Result<Standing, CliError> {
    serde_json::from_value(batch.clone()).map_err(|error| {
        CliError::failed(format!("the server answered with something that is no batch: {error}"))
            .hint("is it a NanoClaw server of this version? name another with --server")
    })
}

/// The batch's path, if its id can stand in one as it is.
pub(super) fn path(id: &str, rest: &str) -> Result<String, CliError> {
    Ok(format!("/v1/batches/{}{rest}", path_segment(id)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, std::path::PathBuf, Output) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("out");
        let output = Place::File(path.clone()).open().expect("opened");
        (dir, path, output)
    }

    #[test]
    fn p2_results_that_break_off_go_on_where_they_were() {
        let (_dir, path, mut output) = place();
        let mut written = 0;
        for text in ["1\n2\n3", "1\n", ""] {
            let torn = copy(Box::new(text.as_bytes()), &mut written, 4, &mut output);
            assert!(matches!(torn, Err(Trouble::Away(_))), "{text}");
            assert_eq!(written, 2, "{text}");
        }
        let whole = copy(Box::new(&b"1\n2\n3\n4\n"[..]), &mut written, 4, &mut output);
        whole.expect("whole").expect("written");
        assert!(!path.exists(), "nothing is seen before all is there");
        output.finish().expect("in its place");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "1\n2\n3\n4\n");
    }
}
