//! The audit log: every tool call as a line of JSON in the data directory, or as a row where several nodes
//! share a store. An entry that cannot be written is logged and does not stop the job.

mod files;
mod mask;
mod options;

use crate::domain::id::{JobId, UserId};
use crate::domain::secret::Secret;
use crate::ports::{Audit, AuditEntry, AuditPage, AuditRows, StoreError};
use files::AuditFiles;
use mask::SecretMask;
pub use options::AuditOptions;
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// Longest result, and longest text in the arguments.
const TEXT_CHARS: usize = 1_000;
/// Longest JSON of all arguments; more is written as one shortened text.
const ARGUMENTS_CHARS: usize = 8_000;
/// Longest line that is read; longer than any that is written.
const LINE_BYTES: u64 = 1 << 20;
/// Limit of a search, from the newest line backwards.
const READ_BYTES: u64 = 64 << 20;

/// The audit log of a data directory, or of a cluster.
pub struct AuditLog {
    entries: AuditStorage,
    mask: SecretMask,
}

enum AuditStorage {
    Files(AuditFiles),
    Rows(Arc<dyn AuditRows>),
}

impl AuditLog {
    /// Opens the log below the data directory, for its owner only. No line contains one of the secrets.
    pub fn open(data_dir: &Path, options: &AuditOptions, secrets: &[Secret]) -> io::Result<Self> {
        let files = AuditFiles::open(data_dir.join("audit"), options)?;
        Ok(Self { entries: AuditStorage::Files(files), mask: SecretMask::new(secrets.iter()) })
    }

    /// The log of a store that several nodes share.
    pub fn shared(rows: Arc<dyn AuditRows>, secrets: &[Secret]) -> Self {
        Self { entries: AuditStorage::Rows(rows), mask: SecretMask::new(secrets.iter()) }
    }

    /// The entry as it is stored: shortened, and without secrets.
    fn masked(&self, entry: &AuditEntry) -> AuditEntry {
        AuditEntry {
            id_ref: cut(&self.mask.text(&entry.id_ref), TEXT_CHARS),
            tool: cut(&self.mask.text(&entry.tool), TEXT_CHARS),
            arguments: shortened(self.mask.value(&entry.arguments)),
            result: cut(&self.mask.text(&entry.result), TEXT_CHARS),
            ..entry.clone()
        }
    }
}

/// The entry as a line of a file.
fn line(entry: &AuditEntry) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

impl Audit for AuditLog {
    fn record(&self, entry: &AuditEntry) {
        let entry = self.masked(entry);
        match &self.entries {
            AuditStorage::Rows(rows) => rows.append_entry(entry),
            AuditStorage::Files(files) => {
                let written = line(&entry).map_err(io::Error::other).and_then(|line| files.append(&line));
                if let Err(error) = written {
                    tracing::error!(%error, job = ?entry.job, "cannot write a tool call to the audit log");
                }
            }
        }
    }

    fn of_job(&self, user: UserId, job: JobId, since_ms: u64, max: usize) -> Result<AuditPage, StoreError> {
        let files = match &self.entries {
            AuditStorage::Rows(rows) => return rows.entries_of_job(user, job, max),
            AuditStorage::Files(files) => files,
        };
        let failed = |error: io::Error| StoreError::Io(format!("cannot read the audit log: {error}"));
        let mut search = AuditSearch { user, job, since_ms, max, found: VecDeque::new(), has_more: false };
        let mut bytes = READ_BYTES;
        for file in files.newest_first().map_err(failed)? {
            if search.file(file, &mut bytes).map_err(failed)?.is_break() {
                break;
            }
        }
        Ok(AuditPage { entries: search.found.into(), has_more: search.has_more })
    }
}

/// Collects the entries of a job, from the newest file to the oldest.
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
    /// Reads the end of the file, up to `bytes`, and subtracts its length. `Break` if the search is complete.
    fn file(&mut self, mut file: File, bytes: &mut u64) -> io::Result<ControlFlow<()>> {
        let length = file.metadata()?.len();
        let is_complete = length <= *bytes;
        let start = length.saturating_sub(*bytes);
        *bytes = bytes.saturating_sub(length);
        file.seek(SeekFrom::Start(start))?;
        // Lines that are written meanwhile are not read.
        let mut lines = BufReader::new(file.take(length.saturating_sub(start)));
        let first = next_line(&mut lines)?;
        let is_older = |line: &String| {
            let entry = serde_json::from_str::<AuditEntry>(line).ok();
            entry.is_some_and(|entry| entry.time_ms < self.since_ms)
        };
        // The first line may be incomplete.
        let first = first.filter(|_| is_complete);
        let reaches_back = first.as_ref().is_some_and(is_older);
        let mut entries = VecDeque::new();
        let mut line = match first {
            Some(first) => Some(first),
            None => next_line(&mut lines)?,
        };
        while let Some(text) = line {
            entries.extend(self.matching(&text));
            if entries.len() > self.max.saturating_sub(self.found.len()) {
                entries.pop_front();
                self.has_more = true;
            }
            line = next_line(&mut lines)?;
        }
        entries.append(&mut self.found);
        self.found = entries;
        self.has_more |= !is_complete;
        let is_done = reaches_back || !is_complete || self.has_more;
        Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    /// The entry of a line of this job. Lines of other jobs are not parsed.
    fn matching(&self, line: &str) -> Option<AuditEntry> {
        let parsed = line.contains(&self.job.to_string()).then(|| serde_json::from_str::<AuditEntry>(line));
        parsed?.ok().filter(|entry| entry.user == self.user && entry.job == Some(self.job))
    }
}

/// The next line, also if it is incomplete or not UTF-8.
fn next_line(lines: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let count = lines.by_ref().take(LINE_BYTES).read_until(b'\n', &mut line)?;
    Ok((count > 0).then(|| String::from_utf8_lossy(&line).into_owned()))
}

/// Shortens every text, and then the value as a whole.
fn shortened(value: Value) -> Value {
    let value = with_short_texts(value);
    let json = value.to_string();
    if json.chars().count() > ARGUMENTS_CHARS { cut(&json, ARGUMENTS_CHARS).into() } else { value }
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

/// The start of the text, with `…` if it was longer.
fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some(_) => text.chars().take(chars.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests;
