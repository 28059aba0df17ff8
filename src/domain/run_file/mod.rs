//! The file of a run, JSON lines: a header, the records of the log as they are stored, the files that the
//! request names, and an end line with counts.

mod header_proof;
mod log_reader;
mod parse;

use super::characters::{beginning, ending};
use super::event::Event;
use super::image::Image;
use super::job::{History, JobSpec};
use super::log_chain::{ChainLink, LogRecord, RecordPlace};
use super::message::Message;
use super::run::{EndedRun, RunState};
use super::stored_file::ContentDigest;
use super::usage::UsageByModel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use header_proof::{HeaderProof, signed_header};
pub use log_reader::{RunLog, RunLogReader};
pub use parse::{RunFile, RunFileContent, RunFileReader};

/// `kind` of the first line.
const RUN_KIND: &str = "nanoclaw.run";

/// `kind` of the last line.
pub const END_KIND: &str = "nanoclaw.end";

/// The layout that this build writes, and the only one that it reads.
pub const RUN_VERSION: u32 = 1;

/// Bytes of the longest part of a message that quotes a line.
const QUOTED_BYTES: usize = 200;

const WRONG_END: &str = "the log does not end with the event that the job's status stands for";

/// A line that is not as it must be. The text is for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RunFault {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct HeaderLine {
    kind: String,
    version: u32,
    job: RunState,
    request: JobSpec,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    hides_input: bool,
    output: String,
    usage: UsageByModel,
    /// What the conversation passed to the job, for a replay. An import ignores it.
    #[serde(default, skip_serializing_if = "is_without_history")]
    history: History,
}

fn is_without_history(history: &History) -> bool {
    *history == History::default()
}

/// The line of a file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLine {
    sha256: ContentDigest,
    bytes: u64,
    /// Base64; `null` if the server has lost the content.
    data: Option<String>,
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
struct EndLine {
    kind: String,
    records: u64,
    files: u64,
}

impl FileLine {
    /// The content, if it is the one that the line names. `None`: it is lost.
    fn content(self) -> Result<Option<Vec<u8>>, String> {
        let content = self.data.map(|data| STANDARD.decode(data)).transpose();
        let content = content.map_err(|error| format!("'data' is not base64: {error}"))?;
        let Some(content) = content else { return Ok(None) };
        let digest = ContentDigest::from_bytes(Sha256::digest(&content).into());
        if digest == self.sha256 && content.len() as u64 == self.bytes {
            Ok(Some(content))
        } else {
            Err(format!("the content has the SHA-256 {digest}, not {}", self.sha256))
        }
    }
}

impl EndLine {
    fn read(text: &str) -> Result<Self, String> {
        let end: Self = serde_json::from_str(text)
            .map_err(|_| "it is neither a record nor a file nor the last line".to_owned())?;
        if end.kind == END_KIND {
            Ok(end)
        } else {
            Err(format!("'{}' is no kind of line that may stand here", end.kind))
        }
    }

    /// The fault of a run with these numbers of records and files, if it has other ones.
    fn fault(&self, (records, files): (usize, usize)) -> Option<String> {
        let is_whole = (records as u64, files as u64) == (self.records, self.files);
        (!is_whole).then(|| {
            format!(
                "it counts {} records and {} files, and {records} and {files} stand before it: some are missing",
                self.records, self.files
            )
        })
    }
}

/// The fault that a file of the request is missing.
fn missing_file(spec: &JobSpec, is_there: impl Fn(&ContentDigest) -> bool) -> Option<String> {
    let missing = named_files(spec).into_iter().find(|image| !is_there(&image.content))?;
    Some(format!("the file {} of the request is missing", missing.content))
}

/// The fault of a file that ends before the last line of a run.
fn cut_off(has_header: bool) -> String {
    if has_header {
        format!("the run ends without its last line, {{\"kind\":\"{END_KIND}\",…}}: it was cut off")
    } else {
        format!("the file holds no run; the first line is {{\"kind\":\"{RUN_KIND}\",…}}")
    }
}

/// A message without the middle of a long text that it quotes.
fn abridged(message: &str) -> String {
    if message.len() <= 2 * QUOTED_BYTES {
        return message.to_owned();
    }
    format!("{}…{}", beginning(message, QUOTED_BYTES), ending(message, QUOTED_BYTES))
}

/// The first line of a run, with its line break.
pub fn header_line(run: &EndedRun, history: History) -> Result<String, serde_json::Error> {
    let EndedRun { state, spec, hides_input, output, usage } = run.clone();
    let input = if hides_input { Vec::new() } else { spec.input };
    let header = HeaderLine {
        kind: RUN_KIND.to_owned(),
        version: RUN_VERSION,
        job: state,
        request: JobSpec { input, ..spec },
        hides_input,
        output,
        usage,
        history,
    };
    line(&header)
}

/// The line of a record, with its line break. The body stays as it is stored.
pub fn record_line(LogRecord { place: RecordPlace { seq, sub }, body, link }: &LogRecord) -> String {
    let link = link.map(|link| format!(",\"link\":\"{link}\"")).unwrap_or_default();
    format!("{{\"seq\":{seq},\"sub\":{sub}{link},\"body\":{body}}}\n")
}

/// Splits the line of a record without a change of its body.
fn split_record(text: &str) -> Option<(RecordPlace, Option<ChainLink>, &str)> {
    let (head, rest) = text.split_once(",\"body\":")?;
    let (seq, rest_of_head) = head.strip_prefix("{\"seq\":")?.split_once(",\"sub\":")?;
    let (sub, link) = match rest_of_head.split_once(",\"link\":\"") {
        Some((sub, link)) => (sub, Some(link.strip_suffix('"')?.parse().ok()?)),
        None => (rest_of_head, None),
    };
    let place = RecordPlace { seq: seq.parse().ok()?, sub: sub.parse().ok()? };
    Some((place, link, rest.strip_suffix('}')?))
}

/// The line of a file, with its line break; without `data`, the content is lost.
pub fn file_line(image: &Image, data: Option<&[u8]>) -> Result<String, serde_json::Error> {
    let data = data.map(|data| STANDARD.encode(data));
    line(&FileLine { sha256: image.content, bytes: image.bytes, data })
}

/// The last line of a run, with its line break.
pub fn end_line(records: u64, files: u64) -> Result<String, serde_json::Error> {
    line(&EndLine { kind: END_KIND.to_owned(), records, files })
}

/// The files that a request names, each once.
pub fn named_files(spec: &JobSpec) -> Vec<&Image> {
    let mut named: Vec<&Image> = Vec::new();
    for image in spec.input.iter().flat_map(Message::images) {
        if named.iter().all(|other| other.content != image.content) {
            named.push(image);
        }
    }
    named
}

fn line(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_string(value).map(|text| text + "\n")
}

/// Whether the event is the end that a job of this status has.
fn is_end_of(event: &Event, run: &RunState) -> bool {
    use super::event::FailureCode;
    use super::job::JobStatus::{Cancelled, Failed, Succeeded};
    match event {
        Event::Done { message_id, .. } => run.status == Succeeded && *message_id == run.id.message_id(),
        Event::Error { code: FailureCode::Cancelled, .. } => run.status == Cancelled,
        Event::Error { .. } => run.status == Failed,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::JobId;
    use crate::domain::job::JobStatus;
    use crate::domain::run::LogStage;

    /// The job of the files of tests.
    pub(super) const JOB: JobId = JobId::from_bits(7);

    /// A run whose log is whole and not chained.
    pub(super) fn ended_run(status: JobStatus, last_event_id: u64) -> EndedRun {
        let state = RunState {
            id: JOB,
            status,
            attempt: 1,
            failed_runs: 0,
            epoch: 1,
            created_at_ms: 1,
            started_at_ms: Some(2),
            finished_at_ms: 3,
            retried_at_ms: None,
            log_head: None,
            fold: None,
            last_event_id,
            log: LogStage::Whole,
        };
        let spec = JobSpec::new("demo".to_owned(), vec![Message::user("go")], 1, 1);
        EndedRun { state, spec, hides_input: false, output: "ab".to_owned(), usage: UsageByModel::default() }
    }
}
