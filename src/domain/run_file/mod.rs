//! The file of a run, JSON lines: a header, the records of the log as they are stored, the files that the
//! request names, and an end line with counts.

mod parse;

use super::event::Event;
use super::image::Image;
use super::job::{History, JobSpec};
use super::log_chain::{LogRecord, RUN_KIND, RecordPlace};
use super::message::Message;
use super::run::{EndedRun, RunState};
use super::stored_file::ContentDigest;
use super::usage::UsageByModel;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

pub use parse::{RunFault, RunFile, RunFileContent, RunFileReader};

/// `kind` of the last line.
pub const END_KIND: &str = "nanoclaw.end";

/// The layout that this build writes, and the only one that it reads.
pub const RUN_VERSION: u32 = 1;

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
