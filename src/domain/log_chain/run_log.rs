//! Reads the logs in the file of exported runs: JSON lines, a header with the kind `nanoclaw.run` before the
//! records of each run. Other lines are passed.

use super::super::id::JobId;
use super::fold_note::FoldNote;
use super::link::{ChainLink, RecordPlace};
use super::record::LogRecord;
use super::verify::LogChain;
use serde::Deserialize;

/// `kind` of the first line.
pub const RUN_KIND: &str = "nanoclaw.run";

/// What a header says about the log.
#[derive(Debug, Deserialize)]
struct RunHeader {
    job: RunJob,
}

#[derive(Debug, Deserialize)]
struct RunJob {
    id: JobId,
    #[serde(default)]
    log_head: Option<ChainLink>,
    #[serde(default)]
    fold: Option<FoldNote>,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct RunLogError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub message: String,
}

/// Reads the lines in their order.
#[derive(Debug, Default)]
pub struct RunLogReader {
    line: u64,
    log: Option<LogChain>,
    /// The link of the newest record, computed.
    link: Option<ChainLink>,
    /// Whether a record of the log names its link.
    has_links: bool,
}

impl RunLogReader {
    /// Reads the next line. Returns the log before it, if this is the header of another one.
    pub fn push(&mut self, text: &str) -> Result<Option<LogChain>, RunLogError> {
        self.line = self.line.saturating_add(1);
        let text = text.trim_end_matches(['\r', '\n']);
        let read = self.read(text);
        read.map_err(|message| RunLogError { line: self.line, message })
    }

    /// The last log. Fails if there was none.
    pub fn end(&mut self) -> Result<LogChain, RunLogError> {
        let missing = || format!("the file holds no run; a run begins with {{\"kind\":\"{RUN_KIND}\",…}}");
        let log = self.log.take().map(|log| self.finished(log));
        log.ok_or_else(|| RunLogError { line: self.line.max(1), message: missing() })
    }

    /// The log as its file has it: without a head and without links it is not chained.
    fn finished(&self, mut log: LogChain) -> LogChain {
        if log.head.is_none() && !self.has_links {
            log.records.iter_mut().for_each(|record| record.link = None);
        }
        log
    }

    fn read(&mut self, text: &str) -> Result<Option<LogChain>, String> {
        if text.starts_with("{\"seq\":") {
            let log = self.log.as_mut().ok_or("a record stands before the header of its run")?;
            let (place, link, body) =
                split_record(text).ok_or("it is no record {\"seq\":N,\"sub\":M,\"body\":{…}}")?;
            if let Some(note) = log.fold.filter(|note| place > note.to)
                && log.records.last().is_none_or(|last| last.place <= note.to)
            {
                self.link = Some(note.after);
            }
            let computed =
                self.link.unwrap_or_else(|| ChainLink::start(log.job)).after(place, body.as_bytes());
            self.link = Some(computed);
            self.has_links |= link.is_some();
            // A file may leave the links out: then only its head proves the records.
            log.records.push(LogRecord {
                place,
                body: body.to_owned(),
                link: Some(link.unwrap_or(computed)),
            });
            return Ok(None);
        }
        if !is_header(text) {
            return Ok(None);
        }
        let RunHeader { job } = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let RunJob { id, log_head, fold } = job;
        let log = LogChain {
            job: id,
            is_ended: true,
            is_imported: false,
            head: log_head,
            fold,
            records: Vec::new(),
        };
        let before = self.log.replace(log).map(|before| self.finished(before));
        (self.link, self.has_links) = (None, false);
        Ok(before)
    }
}

fn is_header(text: &str) -> bool {
    #[derive(Deserialize)]
    struct RunLogLine {
        kind: String,
    }
    serde_json::from_str::<RunLogLine>(text).is_ok_and(|line| line.kind == RUN_KIND)
}

/// Splits the line of a record without a change of its body.
pub fn split_record(text: &str) -> Option<(RecordPlace, Option<ChainLink>, &str)> {
    let (head, rest) = text.split_once(",\"body\":")?;
    let (seq, rest_of_head) = head.strip_prefix("{\"seq\":")?.split_once(",\"sub\":")?;
    let (sub, link) = match rest_of_head.split_once(",\"link\":\"") {
        Some((sub, link)) => (sub, Some(link.strip_suffix('"')?.parse().ok()?)),
        None => (rest_of_head, None),
    };
    let place = RecordPlace { seq: seq.parse().ok()?, sub: sub.parse().ok()? };
    Some((place, link, rest.strip_suffix('}')?))
}

#[cfg(test)]
mod tests {
    use super::super::verify::{ChainFault, ChainVerdict};
    use super::*;

    const JOB: JobId = JobId::from_bits(7);
    const BODIES: [&str; 3] = ["{\"a\": 1}", "{\"b\":\",\\\"body\\\":\"}", "{}"];

    fn file(head: Option<ChainLink>, has_links: bool) -> String {
        let head = head.map_or("null".to_owned(), |head| format!("\"{head}\""));
        let mut file = format!(
            "{{\"kind\":\"nanoclaw.run\",\"version\":1,\"job\":{{\"id\":\"{JOB}\",\"log_head\":{head}}}}}\n"
        );
        let mut link = ChainLink::start(JOB);
        for (seq, body) in (1..).zip(BODIES) {
            link = link.after(RecordPlace::event(seq), body.as_bytes());
            let shown = if has_links { format!(",\"link\":\"{link}\"") } else { String::new() };
            let text = format!("{{\"seq\":{seq},\"sub\":0{shown},\"body\":{body}}}\n");
            file.push_str(&text);
        }
        file + "{\"kind\":\"nanoclaw.end\",\"records\":3}\n"
    }

    fn head() -> ChainLink {
        (1..).zip(BODIES).fold(ChainLink::start(JOB), |link, (seq, body)| {
            link.after(RecordPlace::event(seq), body.as_bytes())
        })
    }

    fn logs(file: &str) -> Result<Vec<LogChain>, RunLogError> {
        let mut reader = RunLogReader::default();
        let mut logs = Vec::new();
        for line in file.lines() {
            logs.extend(reader.push(line)?);
        }
        logs.push(reader.end()?);
        Ok(logs)
    }

    #[test]
    fn the_logs_of_a_file_are_verified_with_and_without_links() {
        for has_links in [true, false] {
            let file = file(Some(head()), has_links).repeat(2);
            let verdicts: Vec<_> = logs(&file).unwrap().iter().map(|log| log.verify(None)).collect();
            let intact = Ok(ChainVerdict::Intact { head: head(), fold: None });
            assert_eq!(verdicts, [intact.clone(), intact]);
        }
        let verdict = |has_links| logs(&file(None, has_links)).unwrap()[0].verify(None);
        assert_eq!(verdict(true), Err(ChainFault::NoHead), "a chain without its head");
        assert_eq!(verdict(false), Ok(ChainVerdict::NotChained));
    }

    #[test]
    fn a_changed_file_is_found() {
        let fault = |has_links, from: &str, to: &str| {
            logs(&file(Some(head()), has_links).replace(from, to)).unwrap()[0].verify(None).unwrap_err()
        };
        let last = RecordPlace::event(3);
        assert_eq!(fault(true, "{\"a\": 1}", "{\"a\":1}"), ChainFault::Changed(RecordPlace::FIRST));
        assert_eq!(fault(false, "{\"a\": 1}", "{\"a\":1}"), ChainFault::OtherHead { last });
        assert_eq!(fault(false, "\"seq\":2", "\"seq\":5"), ChainFault::Missing(RecordPlace::event(2)));
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let broken = file(None, false).replace("\"sub\":0,\"body\":{}", "\"sub\":x,\"body\":{}");
        assert_eq!(logs(&broken).unwrap_err().line, 4);
        assert!(logs("").unwrap_err().to_string().contains("holds no run"));
        assert_eq!(logs("{\"seq\":1,\"sub\":0,\"body\":{}}").unwrap_err().line, 1);
    }
}
