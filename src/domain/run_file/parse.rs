//! Reads the file of a run line by line and checks everything that a store relies on: order and numbers of
//! the records, the terminal event, the digests of files, and the counts at the end.

use super::{
    EndLine, FileLine, HeaderLine, HeaderProof, RUN_KIND, RUN_VERSION, RunFault, WRONG_END, abridged,
    cut_off, is_end_of, missing_file, split_record,
};
use crate::domain::event::{Event, Record};
use crate::domain::image::ImageType;
use crate::domain::job::History;
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::message::Message;
use crate::domain::run::{EndedRun, ImportedRun};
use crate::domain::stored_file::ContentDigest;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Largest number of an event.
const SEQ_MAX: u64 = 1 << 53;

/// Largest number of a mark.
const SUB_MAX: u32 = 1 << 30;

/// Characters of the longest name of a model.
const MODEL_CHARS: usize = 256;

/// A content that the file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFileContent {
    /// Its SHA-256, which was checked.
    pub digest: ContentDigest,
    /// The content.
    pub data: Vec<u8>,
}

/// A run and the contents that its request names.
#[derive(Debug, Clone, PartialEq)]
pub struct RunFile {
    /// The run.
    pub run: ImportedRun,
    /// What the conversation passed to the job.
    pub history: History,
    /// The contents. Images whose content the other server had lost are no longer in the request.
    pub contents: Vec<RunFileContent>,
    /// What was changed since the export, as far as the chain of the log and the signature of its first line
    /// prove.
    pub fault: Option<String>,
}

/// Reads one run. The lines come in order.
#[derive(Debug, Default)]
pub struct RunFileReader {
    line: u64,
    header: Option<EndedRun>,
    proof: HeaderProof,
    history: History,
    records: Vec<LogRecord>,
    last: Option<Event>,
    /// First event and length of each step.
    steps: BTreeMap<u32, (u64, u64)>,
    /// `None`: the content is lost.
    files: BTreeMap<ContentDigest, Option<Vec<u8>>>,
    is_over: bool,
}

/// What tells the first and the last line from the others.
#[derive(Deserialize)]
struct LineKind {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    version: Option<u32>,
}

impl RunFileReader {
    /// A reader of a run behind this many lines of a file.
    pub fn behind(lines: u64) -> Self {
        Self { line: lines, ..Self::default() }
    }

    /// Reads the next line. Returns the run with its last line.
    pub fn push(&mut self, text: &str) -> Result<Option<RunFile>, RunFault> {
        self.line = self.line.saturating_add(1);
        let text = text.trim_end_matches(['\r', '\n']);
        if text.trim().is_empty() {
            return Ok(None);
        }
        let read = self.read(text);
        read.map_err(|message| RunFault { line: self.line, message: abridged(&message) })
    }

    /// The fault of a file that ends here.
    pub fn cut_off(&self) -> RunFault {
        let message = cut_off(self.header.is_some() || self.is_over);
        RunFault { line: self.line.max(1), message }
    }

    /// Whether a run has begun and not ended.
    pub fn is_open(&self) -> bool {
        self.header.is_some()
    }

    fn read(&mut self, text: &str) -> Result<Option<RunFile>, String> {
        if self.is_over {
            return Err("the run is over; a request holds one run, so send the next one by itself".to_owned());
        }
        if self.header.is_none() {
            let (run, history) = read_header(text)?;
            (self.header, self.history, self.proof) = (Some(run), history, HeaderProof::of(text));
        } else if text.starts_with("{\"seq\":") {
            self.add_record(text)?;
        } else if text.starts_with("{\"sha256\":") {
            self.add_file(text)?;
        } else {
            return self.end(text).map(Some);
        }
        Ok(None)
    }

    fn add_record(&mut self, text: &str) -> Result<(), String> {
        if !self.files.is_empty() {
            return Err("a record of the log stands behind the files".to_owned());
        }
        let record = log_record(text).ok_or("it is no record {\"seq\":N,\"sub\":M,\"body\":{…}}")?;
        let RecordPlace { seq, sub } = record.place;
        if seq > SEQ_MAX || sub > SUB_MAX {
            return Err(format!("{seq}.{sub} is no number of a record"));
        }
        let is_whole = self.header.as_ref().is_some_and(|run| run.state.has_whole_log());
        let before = self.records.last().map_or(RecordPlace::BEFORE_FIRST, |last| last.place);
        if record.place <= before {
            return Err(format!("record {seq}.{sub} stands behind {}.{}", before.seq, before.sub));
        }
        let is_next = match sub {
            0 => seq == before.seq.saturating_add(1),
            _ => seq == before.seq && sub == before.sub.saturating_add(1),
        };
        if is_whole && !is_next {
            return Err(format!("record {seq}.{sub} follows {}.{}: one is missing", before.seq, before.sub));
        }
        let parsed = record.parse().map_err(|error| format!("record {seq}.{sub} cannot be read: {error}"))?;
        if !self.continues_step(seq, &parsed) {
            return Err(format!("the text of record {seq}.{sub} does not continue its step"));
        }
        self.last = match parsed {
            Record::Event(event) => Some(event),
            Record::Mark(_) => None,
        };
        self.records.push(record);
        Ok(())
    }

    /// Whether a delta begins a step or continues it. Readers rely on that to find the text of a step.
    fn continues_step(&mut self, seq: u64, record: &Record) -> bool {
        let Record::Event(Event::Delta { index, offset, first_seq, text, .. }) = record else { return true };
        let (offset, first_seq) = (*offset, *first_seq);
        let expected = if offset == 0 { (seq, 0) } else { self.steps.get(index).copied().unwrap_or((0, 0)) };
        let end = offset.saturating_add(text.len() as u64);
        self.steps.insert(*index, (first_seq, end));
        expected == (first_seq, offset)
    }

    fn add_file(&mut self, text: &str) -> Result<(), String> {
        let file: FileLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let images = self.header.iter().flat_map(|run| run.spec.input.iter().flat_map(Message::images));
        let mut lengths = images.filter(|image| image.content == file.sha256).map(|image| image.bytes);
        if lengths.next() != Some(file.bytes) || lengths.any(|bytes| bytes != file.bytes) {
            return Err("the request names no file of this digest and length".to_owned());
        }
        let digest = file.sha256;
        let content = file.content()?;
        if content.as_ref().is_some_and(|content| ImageType::of_bytes(content).is_none()) {
            return Err("the content is no image".to_owned());
        }
        match self.files.insert(digest, content) {
            Some(_) => Err("the file is there twice".to_owned()),
            None => Ok(()),
        }
    }

    fn end(&mut self, text: &str) -> Result<RunFile, String> {
        let end = EndLine::read(text)?;
        if let Some(fault) = end.fault((self.records.len(), self.files.len())) {
            return Err(fault);
        }
        let mut run = self.header.take().ok_or("there is no header")?;
        self.is_over = true;
        let last_seq = self.records.last().map_or(0, |last| last.place.seq);
        let end = self.last.take().filter(|event| is_end_of(event, &run.state));
        let end = end.filter(|_| last_seq == run.state.last_event_id);
        let end = end.ok_or(WRONG_END)?;
        let files = std::mem::take(&mut self.files);
        if let Some(fault) = missing_file(&run.spec, |digest| files.contains_key(digest)) {
            return Err(fault);
        }
        for message in &mut run.spec.input {
            if let Message::User { images, .. } = message {
                images.retain(|image| files.get(&image.content).is_some_and(Option::is_some));
            }
        }
        let contents =
            files.into_iter().filter_map(|(digest, data)| data.map(|data| RunFileContent { digest, data }));
        let records = std::mem::take(&mut self.records);
        let history = std::mem::take(&mut self.history);
        let run = ImportedRun::new(run, records, end);
        let of_log = run.fault.as_ref().map(ToString::to_string);
        let fault = of_log.or_else(|| self.proof.fault(&[]));
        Ok(RunFile { contents: contents.collect(), history, run, fault })
    }
}

pub(super) fn read_header(text: &str) -> Result<(EndedRun, History), String> {
    let first = format!("the first line of a run is {{\"kind\":\"{RUN_KIND}\",\"version\":{RUN_VERSION},…}}");
    let kind: LineKind = serde_json::from_str(text).map_err(|_| first.clone())?;
    if kind.kind.as_deref() != Some(RUN_KIND) {
        return Err(first);
    }
    if kind.version != Some(RUN_VERSION) {
        let found = kind.version.map_or_else(|| "no version".to_owned(), |found| format!("version {found}"));
        return Err(format!(
            "the run has {found}, and this server reads version {RUN_VERSION}; use a server of the version that \
             has written it"
        ));
    }
    let header: HeaderLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let HeaderLine { job: state, request: spec, hides_input, output, usage, history, .. } = header;
    if !state.status.is_terminal() {
        return Err(format!("the job is {}; only an ended job can be imported", state.status.as_str()));
    }
    if let Some(fault) = spec.fault(state.id) {
        return Err(format!("no server accepts this request: {fault}"));
    }
    let is_name = |name: &str| {
        !name.is_empty() && name.chars().count() <= MODEL_CHARS && !name.chars().any(char::is_control)
    };
    if !is_name(&spec.model) || !usage.entries().all(|(model, _)| is_name(model)) {
        return Err(format!("the name of a model has 1 to {MODEL_CHARS} characters, none of them a control"));
    }
    Ok((EndedRun { state, spec, hides_input, output, usage }, history))
}

/// The record of a line. Exports of earlier versions have no links.
fn log_record(text: &str) -> Option<LogRecord> {
    let (place, link, body) = split_record(text)?;
    Some(LogRecord { place, body: body.to_owned(), link })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{JOB, ended_run};
    use super::super::{end_line, header_line, record_line};
    use super::*;
    use crate::domain::event::{EngineMark, FinishReason, StepKind};
    use crate::domain::id::JobId;
    use crate::domain::job::{JobSpec, JobStatus};
    use crate::domain::usage::Usage;
    use proptest::prelude::*;

    fn delta(first_seq: u64, offset: u64, text: &str) -> Record {
        Event::Delta { index: 0, kind: StepKind::Text, offset, first_seq, text: text.to_owned() }.into()
    }

    fn done(id: JobId) -> Record {
        Event::Done {
            message_id: id.message_id(),
            token_count: 0,
            suggested_title: None,
            usage: Usage::default(),
            finish_reason: FinishReason::Stop,
            stop_sequence: None,
        }
        .into()
    }

    /// The file of a run with these records.
    fn file(records: &[((u64, u32), Record)]) -> String {
        let last_event_id = records.last().map_or(0, |((seq, _), _)| *seq);
        let run = ended_run(JobStatus::Succeeded, last_event_id);
        let mut text = header_line(&run, History::default()).expect("JSON");
        for ((seq, sub), record) in records {
            let body = serde_json::to_string(record).expect("JSON");
            let place = RecordPlace { seq: *seq, sub: *sub };
            text.push_str(&record_line(&LogRecord { place, body, link: None }));
        }
        text + &end_line(records.len() as u64, 0).expect("JSON")
    }

    fn read(text: &str) -> Result<RunFile, RunFault> {
        let mut reader = RunFileReader::default();
        for line in text.lines() {
            if let Some(file) = reader.push(line)? {
                return Ok(file);
            }
        }
        Err(reader.cut_off())
    }

    fn whole() -> Vec<((u64, u32), Record)> {
        let mark = EngineMark::ToolStarted { id_ref: "a".to_owned() };
        let records = [delta(1, 0, "a"), delta(1, 1, "b"), mark.into(), done(JOB)];
        [(1, 0), (2, 0), (2, 1), (3, 0)].into_iter().zip(records).collect()
    }

    #[test]
    fn a_written_run_reads_as_it_was() {
        let file = read(&file(&whole())).expect("read");
        assert_eq!(file.run.records.len(), 4);
        assert_eq!(file.run.records[2].body, r#"{"mark":"tool_started","id_ref":"a"}"#);
        assert_eq!(
            file.run.end,
            match done(JOB) {
                Record::Event(event) => event,
                Record::Mark(_) => unreachable!("an event"),
            }
        );
    }

    #[test]
    fn p8_numbers_and_steps_of_records_are_checked() {
        let with = |place: usize, at: (u64, u32), record: Record| {
            let mut records = whole();
            records[place] = (at, record);
            read(&file(&records)).expect_err("refused").to_string()
        };
        assert_eq!(with(1, (3, 0), delta(1, 1, "b")), "line 3: record 3.0 follows 1.0: one is missing");
        assert_eq!(with(1, (1, 0), delta(1, 1, "b")), "line 3: record 1.0 stands behind 1.0");
        for torn in [delta(1, 2, "b"), delta(2, 1, "b"), delta(1, 0, "b")] {
            assert_eq!(with(1, (2, 0), torn), "line 3: the text of record 2.0 does not continue its step");
        }
        let other = done(JobId::from_bits(8));
        assert!(with(3, (3, 0), other).ends_with("the event that the job's status stands for"));
    }

    #[test]
    fn p8_a_request_that_no_server_accepts_is_refused() {
        let with = |change: &dyn Fn(&mut JobSpec)| {
            let mut run = ended_run(JobStatus::Succeeded, 3);
            change(&mut run.spec);
            let header = header_line(&run, History::default()).expect("JSON");
            let (_, rest) =
                file(&whole()).split_once('\n').map(|(a, b)| (a.len(), b.to_owned())).expect("lines");
            read(&(header + &rest)).err().map(|fault| fault.to_string()).unwrap_or_default()
        };
        assert_eq!(with(&|_| {}), "");
        let of_request = "line 1: no server accepts this request: ";
        for (change, fault) in [
            (&(|spec: &mut JobSpec| spec.temperature = Some(2.1)) as &dyn Fn(&mut JobSpec), "'temperature'"),
            (&|spec| spec.max_steps = 0, "'max_steps'"),
            (&|spec| spec.conditions.after = vec![JOB], "'after' names"),
            (&|spec| spec.conditions.after = vec![JobId::from_bits(1); 2], "'after' names"),
        ] {
            assert!(with(change).starts_with(&format!("{of_request}{fault}")), "{}", with(change));
        }
        let beyond = file(&whole()).replacen("\"priority\":5", "\"priority\":10", 1);
        let fault = read(&beyond).expect_err("refused").to_string();
        assert!(fault.contains("a priority is a number from 0 to 9"), "{fault}");
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(line: String, place in 0_usize..6) {
            let whole = file(&whole());
            let mut lines: Vec<&str> = whole.lines().collect();
            lines.insert(place.min(lines.len()), &line);
            drop(read(&lines.join("\n")));
        }
    }
}
