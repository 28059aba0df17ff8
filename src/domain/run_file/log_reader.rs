//! Reads the logs in a file of exported runs, to compare them with their chains. A record is taken as it is:
//! the chain names the one that was changed. What the chain does not prove is checked beside it.

use super::parse::read_header;
use super::{
    EndLine, FileLine, HeaderProof, RUN_KIND, RunFault, WRONG_END, abridged, cut_off, is_end_of,
    missing_file, split_record,
};
use crate::domain::event::Record;
use crate::domain::log_chain::{ChainLink, LogChain, LogRecord};
use crate::domain::run::EndedRun;
use crate::domain::stored_file::ContentDigest;
use serde::Deserialize;

/// The log of a run as its file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLog {
    /// The log. It does not know whose key has signed its fold.
    pub chain: LogChain,
    /// What is wrong with the other lines of the run.
    pub fault: Option<String>,
    /// Who has signed its first line.
    pub proof: HeaderProof,
}

/// A run whose last line has not come.
#[derive(Debug)]
struct OpenRun {
    run: EndedRun,
    proof: HeaderProof,
    records: Vec<LogRecord>,
    /// The link of the newest record, computed.
    link: ChainLink,
    /// Whether a record names its link.
    has_links: bool,
    files: Vec<ContentDigest>,
    fault: Option<String>,
}

/// Reads the lines in their order.
#[derive(Debug, Default)]
pub struct RunLogReader {
    line: u64,
    open: Option<OpenRun>,
    has_runs: bool,
}

impl RunLogReader {
    /// Reads the next line. Returns the log that it ends, or the one before it that has no last line.
    pub fn push(&mut self, text: &str) -> Result<Option<RunLog>, RunFault> {
        self.line = self.line.saturating_add(1);
        let read = self.read(text.trim_end_matches(['\r', '\n']));
        read.map_err(|message| RunFault { line: self.line, message: abridged(&message) })
    }

    /// The last log, if it has no last line. Fails if the file holds no run.
    pub fn end(&mut self) -> Result<Option<RunLog>, RunFault> {
        if !self.has_runs {
            return Err(RunFault { line: self.line.max(1), message: cut_off(false) });
        }
        Ok(self.open.take().map(OpenRun::cut_off))
    }

    fn read(&mut self, text: &str) -> Result<Option<RunLog>, String> {
        if text.trim().is_empty() {
            return Ok(None);
        }
        let (is_record, is_file) = (text.starts_with("{\"seq\":"), text.starts_with("{\"sha256\":"));
        if !is_record && !is_file && is_header(text) {
            let (run, _) = read_header(text)?;
            self.has_runs = true;
            let open = OpenRun::new(run, HeaderProof::of(text));
            return Ok(self.open.replace(open).map(OpenRun::cut_off));
        }
        let Some(open) = &mut self.open else {
            return Err(format!(
                "the header of its run, {{\"kind\":\"{RUN_KIND}\",…}}, is missing before it"
            ));
        };
        if is_record {
            open.add_record(text)?;
        } else if is_file {
            open.add_file(text)?;
        } else {
            let end = EndLine::read(text)?;
            return Ok(self.open.take().map(|open| open.end(&end)));
        }
        Ok(None)
    }
}

impl OpenRun {
    fn new(run: EndedRun, proof: HeaderProof) -> Self {
        let link = ChainLink::start(run.state.id);
        Self { run, proof, records: Vec::new(), link, has_links: false, files: Vec::new(), fault: None }
    }

    fn add_record(&mut self, text: &str) -> Result<(), String> {
        let (place, link, body) =
            split_record(text).ok_or("it is no record {\"seq\":N,\"sub\":M,\"body\":{…}}")?;
        if let Some(note) = self.run.state.fold.filter(|note| place > note.to)
            && self.records.last().is_none_or(|last| last.place <= note.to)
        {
            self.link = note.after;
        }
        self.link = self.link.after(place, body.as_bytes());
        self.has_links |= link.is_some();
        // A file may leave the links out: then only its head proves the records.
        let link = Some(link.unwrap_or(self.link));
        self.records.push(LogRecord { place, body: body.to_owned(), link });
        Ok(())
    }

    fn add_file(&mut self, text: &str) -> Result<(), String> {
        let file: FileLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
        self.files.push(file.sha256);
        let fault = file.content().err();
        self.fault = self.fault.take().or(fault);
        Ok(())
    }

    fn end(self, end: &EndLine) -> RunLog {
        let fault = end.fault((self.records.len(), self.files.len()));
        let fault = fault.or_else(|| missing_file(&self.run.spec, |digest| self.files.contains(digest)));
        let fault = fault.or_else(|| (!self.has_its_end()).then(|| WRONG_END.to_owned()));
        self.finished(fault)
    }

    fn cut_off(self) -> RunLog {
        self.finished(Some(cut_off(true)))
    }

    /// Whether the newest record is the event that the status in the header stands for.
    fn has_its_end(&self) -> bool {
        let state = &self.run.state;
        let newest = self.records.last().filter(|newest| newest.place.seq == state.last_event_id);
        let event = newest.and_then(|newest| newest.parse().ok());
        matches!(event, Some(Record::Event(event)) if is_end_of(&event, state))
    }

    /// Without a head and without links, the log is not chained.
    fn finished(mut self, fault: Option<String>) -> RunLog {
        let state = &self.run.state;
        if state.log_head.is_none() && !self.has_links {
            self.records.iter_mut().for_each(|record| record.link = None);
        }
        let chain = LogChain {
            job: state.id,
            is_ended: true,
            is_imported: false,
            head: state.log_head,
            fold: state.fold,
            records: self.records,
        };
        RunLog { chain, fault: self.fault.or(fault), proof: self.proof }
    }
}

fn is_header(text: &str) -> bool {
    #[derive(Deserialize)]
    struct RunLogLine {
        kind: String,
    }
    serde_json::from_str::<RunLogLine>(text).is_ok_and(|line| line.kind == RUN_KIND)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{JOB, ended_run};
    use super::super::{end_line, header_line};
    use super::*;
    use crate::domain::job::{History, JobStatus};
    use crate::domain::log_chain::{ChainFault, ChainVerdict, RecordPlace};

    const BODIES: [&str; 3] = [
        "{\"a\": 1}",
        "{\"b\":\",\\\"body\\\":\"}",
        "{\"event\":\"error\",\"content\":\"x\",\"code\":\"cancelled\",\"retry_after_ms\":null}",
    ];

    fn file(head: Option<ChainLink>, has_links: bool) -> String {
        let mut run = ended_run(JobStatus::Cancelled, 3);
        run.state.log_head = head;
        let mut file = header_line(&run, History::default()).unwrap();
        let mut link = ChainLink::start(JOB);
        for (seq, body) in (1..).zip(BODIES) {
            link = link.after(RecordPlace::event(seq), body.as_bytes());
            let shown = if has_links { format!(",\"link\":\"{link}\"") } else { String::new() };
            let text = format!("{{\"seq\":{seq},\"sub\":0{shown},\"body\":{body}}}\n");
            file.push_str(&text);
        }
        file + &end_line(3, 0).unwrap()
    }

    fn head() -> ChainLink {
        (1..).zip(BODIES).fold(ChainLink::start(JOB), |link, (seq, body)| {
            link.after(RecordPlace::event(seq), body.as_bytes())
        })
    }

    fn logs(file: &str) -> Result<Vec<RunLog>, RunFault> {
        let mut reader = RunLogReader::default();
        let mut logs = Vec::new();
        for line in file.lines() {
            logs.extend(reader.push(line)?);
        }
        logs.extend(reader.end()?);
        Ok(logs)
    }

    #[test]
    fn the_logs_of_a_file_are_verified_with_and_without_links() {
        for has_links in [true, false] {
            let logs = logs(&file(Some(head()), has_links).repeat(2)).unwrap();
            let verdicts: Vec<_> =
                logs.iter().map(|log| (log.chain.verify(&[]), log.fault.clone())).collect();
            let intact = (Ok(ChainVerdict::Intact { head: head(), fold: None }), None);
            assert_eq!(verdicts, [intact.clone(), intact]);
        }
        let verdict = |has_links| logs(&file(None, has_links)).unwrap()[0].chain.verify(&[]);
        assert_eq!(verdict(true), Err(ChainFault::NoHead), "a chain without its head");
        assert_eq!(verdict(false), Ok(ChainVerdict::NotChained));
    }

    #[test]
    fn a_changed_file_is_found() {
        let fault = |has_links, from: &str, to: &str| {
            let changed = file(Some(head()), has_links).replace(from, to);
            logs(&changed).unwrap()[0].chain.verify(&[]).unwrap_err()
        };
        let last = RecordPlace::event(3);
        assert_eq!(fault(true, "{\"a\": 1}", "{\"a\":1}"), ChainFault::Changed(RecordPlace::FIRST));
        assert_eq!(fault(false, "{\"a\": 1}", "{\"a\":1}"), ChainFault::OtherHead { last });
        assert_eq!(fault(false, "\"seq\":2", "\"seq\":5"), ChainFault::Missing(RecordPlace::event(2)));
    }

    #[test]
    fn a_changed_line_beside_the_log_is_found() {
        let whole = file(Some(head()), true);
        let fault = |from: &str, to: &str| {
            let log = logs(&whole.replacen(from, to, 1)).unwrap().remove(0);
            assert!(log.chain.verify(&[]).is_ok());
            log.fault.unwrap_or_default()
        };
        let end = whole.lines().last().unwrap();
        assert!(fault(end, "").ends_with("it was cut off"));
        assert!(fault("\"records\":3", "\"records\":4").ends_with("some are missing"));
        for (from, to) in [("\"cancelled\"", "\"failed\""), ("\"last_event_id\":3", "\"last_event_id\":4")] {
            assert_eq!(fault(from, to), WRONG_END);
        }
        let line = |from: &str, to: &str| logs(&whole.replacen(from, to, 1)).unwrap_err().line;
        assert_eq!(line("\"version\":1", "\"version\":2"), 1);
        assert_eq!(line("{\"seq\":2", " {\"seq\":2"), 3, "no record, and nothing else");
        assert_eq!(logs(&(whole.clone() + "more")).unwrap_err().line, 6);
    }

    #[test]
    fn a_line_that_is_no_record_is_named() {
        let broken = file(None, false).replace("\"seq\":3,\"sub\":0", "\"seq\":3,\"sub\":x");
        assert_eq!(logs(&broken).unwrap_err().line, 4);
        assert!(logs("").unwrap_err().to_string().contains("holds no run"));
        assert_eq!(logs("{\"seq\":1,\"sub\":0,\"body\":{}}").unwrap_err().line, 1);
        let long = file(None, false).replace("\"whole\"", &format!("\"{}\"", "x".repeat(100_000)));
        assert!(logs(&long).unwrap_err().to_string().len() < 500);
    }
}
