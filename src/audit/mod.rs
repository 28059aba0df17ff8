//! What became of every call of a tool, as lines of JSON in the data directory. Owns their form, what is a secret in them and
//! how long they are; refuses to stand in the way of a job: what cannot be written is logged.

mod files;
mod mask;
mod options;

use crate::domain::id::{JobId, UserId};
use crate::domain::secret::Secret;
use crate::ports::{Audit, AuditEntry, AuditPage, StoreError};
use files::Files;
use mask::Mask;
pub use options::AuditOptions;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

/// A result and each text of the arguments, characters.
const TEXT_CHARS: usize = 1_000;
/// All arguments of a call, characters of JSON; more are written as one text, cut.
const ARGUMENTS_CHARS: usize = 8_000;
/// The longest line that is read back, bytes: longer than any that is written.
const LINE_BYTES: u64 = 1 << 20;
/// What is read for one answer, the newest lines first, bytes.
const READ_BYTES: u64 = 64 << 20;

/// The audit log of a data directory.
pub struct AuditLog {
    files: Files,
    mask: Mask,
}

impl AuditLog {
    /// Opens it below the data directory, for its owner alone. The secrets stand in no line.
    pub fn open(data_dir: &Path, options: &AuditOptions, secrets: &[Secret]) -> io::Result<Self> {
        Ok(Self { files: Files::open(data_dir.join("audit"), options)?, mask: Mask::new(secrets) })
    }

    fn line(&self, entry: &AuditEntry) -> serde_json::Result<Vec<u8>> {
        let told = AuditEntry {
            id_ref: cut(&self.mask.text(&entry.id_ref), TEXT_CHARS),
            tool: cut(&self.mask.text(&entry.tool), TEXT_CHARS),
            arguments: shortened(self.mask.value(&entry.arguments)),
            result: cut(&self.mask.text(&entry.result), TEXT_CHARS),
            ..entry.clone()
        };
        let mut line = serde_json::to_vec(&told)?;
        line.push(b'\n');
        Ok(line)
    }
}

impl Audit for AuditLog {
    fn record(&self, entry: &AuditEntry) {
        let written = self.line(entry).map_err(io::Error::other).and_then(|line| self.files.append(&line));
        if let Err(error) = written {
            tracing::error!(%error, job = ?entry.job, "a call of a tool is missing in the audit log");
        }
    }

    fn of_job(&self, user: UserId, job: JobId, since_ms: u64, max: usize) -> Result<AuditPage, StoreError> {
        let failed = |error: io::Error| StoreError::Io(format!("cannot read the audit log: {error}"));
        let mut search = AuditSearch { user, job, since_ms, max, found: VecDeque::new(), has_more: false };
        let mut bytes = READ_BYTES;
        for file in self.files.newest_first().map_err(failed)? {
            if search.file(file, &mut bytes).map_err(failed)?.is_break() {
                break;
            }
        }
        Ok(AuditPage { entries: search.found.into(), has_more: search.has_more })
    }
}

/// A job's entries on their way out of the files, the newest file first.
struct AuditSearch {
    user: UserId,
    job: JobId,
    since_ms: u64,
    max: usize,
    /// Oldest first.
    found: VecDeque<AuditEntry>,
    has_more: bool,
}

impl AuditSearch {
    /// Reads as much of the file's end as there are bytes left for. `Break` where no older file need be read.
    fn file(&mut self, mut file: File, bytes: &mut u64) -> io::Result<ControlFlow<()>> {
        let length = file.metadata()?.len();
        let is_whole = length <= *bytes;
        let begin = length.saturating_sub(*bytes);
        *bytes = bytes.saturating_sub(length);
        file.seek(SeekFrom::Start(begin))?;
        // What is written meanwhile is not read.
        let mut lines = BufReader::new(file.take(length.saturating_sub(begin)));
        let first = next_line(&mut lines)?;
        let is_older = |line: &String| {
            let entry = serde_json::from_str::<AuditEntry>(line).ok();
            entry.is_some_and(|entry| entry.time_ms < self.since_ms)
        };
        // Without its beginning the first line is none.
        let first = first.filter(|_| is_whole);
        let reaches_back = first.as_ref().is_some_and(is_older);
        let mut here = VecDeque::new();
        let mut line = match first {
            Some(first) => Some(first),
            None => next_line(&mut lines)?,
        };
        while let Some(text) = line {
            here.extend(self.wanted(&text));
            if here.len() > self.max.saturating_sub(self.found.len()) {
                here.pop_front();
                self.has_more = true;
            }
            line = next_line(&mut lines)?;
        }
        here.append(&mut self.found);
        self.found = here;
        self.has_more |= !is_whole;
        let is_done = reaches_back || !is_whole || self.has_more;
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// Most lines are other jobs': they need not be understood.
    fn wanted(&self, line: &str) -> Option<AuditEntry> {
        let found = line.contains(&self.job.to_string()).then(|| serde_json::from_str::<AuditEntry>(line));
        found?.ok().filter(|entry| entry.user == self.user && entry.job == Some(self.job))
    }
}

/// The next line; one that is no text, or that a crash cut off, is read as far as it goes.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok((read > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

/// No text of it is long, and it is not long itself.
fn shortened(value: Value) -> Value {
    let short = with_short_texts(value);
    let text = short.to_string();
    if text.chars().count() > ARGUMENTS_CHARS { cut(&text, ARGUMENTS_CHARS).into() } else { short }
}

fn with_short_texts(value: Value) -> Value {
    match value {
        Value::String(text) => cut(&text, TEXT_CHARS).into(),
        Value::Array(items) => items.into_iter().map(with_short_texts).collect(),
        Value::Object(map) => {
            map.into_iter().map(|(name, item)| (cut(&name, TEXT_CHARS), with_short_texts(item))).collect()
        }
        other => other,
    }
}

/// The text's beginning, with a mark where it was longer.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests;
