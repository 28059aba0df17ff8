//! An ended job with its request, its answer and its log: what moves from one server to another.

use super::event::Event;
use super::id::{JobId, UserId};
use super::job::{Job, JobOutcome, JobSpec, JobStatus};
use super::log_chain::{ChainFault, ChainLink, FoldNote, LogChain, LogRecord};
use super::usage::UsageByModel;
use serde::{Deserialize, Serialize};

/// How much of a job's log is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStage {
    /// All of it.
    Whole,
    /// Retention has joined the deltas of each step.
    Folded,
    /// Retention has left the last event only.
    Cut,
}

/// The state of an ended job, beside its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunState {
    /// Id.
    pub id: JobId,
    /// A terminal status.
    pub status: JobStatus,
    /// Started runs.
    pub attempt: u32,
    /// Failed runs that were followed by another attempt.
    pub failed_runs: u32,
    /// Number of claims.
    pub epoch: u64,
    /// Acceptance, unix milliseconds.
    pub created_at_ms: u64,
    /// First claim, unix milliseconds.
    pub started_at_ms: Option<u64>,
    /// End, unix milliseconds.
    pub finished_at_ms: u64,
    /// When it was last retried, unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retried_at_ms: Option<u64>,
    /// Number of the last event.
    pub last_event_id: u64,
    /// How much of the log is left.
    pub log: LogStage,
    /// Head of the log's hash chain; absent if the log has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_head: Option<ChainLink>,
    /// What was folded of the log, signed by its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fold: Option<FoldNote>,
}

impl RunState {
    /// Whether the log has all records, without a gap. A retried job may have lost some before.
    pub fn has_whole_log(&self) -> bool {
        self.log == LogStage::Whole && self.retried_at_ms.is_none()
    }
}

/// An ended job without its log.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRun {
    /// Its state.
    pub state: RunState,
    /// The request.
    pub spec: JobSpec,
    /// Whether its owner has deleted the question: the request then has no input.
    pub hides_input: bool,
    /// The answer's text.
    pub output: String,
    /// Its usage.
    pub usage: UsageByModel,
}

/// The links of these records, behind a fold as its note continues the chain.
fn links(job: JobId, fold: Option<&FoldNote>, records: &[LogRecord]) -> Vec<ChainLink> {
    let mut newest = ChainLink::start(job);
    let mut note = fold;
    let chained = records.iter().map(|LogRecord { place, body, .. }| {
        if let Some(note) = note.take_if(|note| *place > note.to) {
            newest = note.after;
        }
        newest = newest.after(*place, body.as_bytes());
        newest
    });
    chained.collect()
}

/// A run from another server, with all that is checked about it.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// The job.
    pub run: EndedRun,
    /// Its log, in order. The last one is the terminal event. They have links if the file has links or a
    /// head: an import invents no proof.
    pub records: Vec<LogRecord>,
    /// The terminal event.
    pub end: Event,
    /// Why the records are not those that their links in the file, the head of their chain, or the note about
    /// its fold prove. Whether its server has signed that note is not known here.
    pub fault: Option<ChainFault>,
}

impl ImportedRun {
    /// A run with these records. If its file has a head or links, its log is chained, and verified.
    pub fn new(mut run: EndedRun, mut records: Vec<LogRecord>, end: Event) -> Self {
        let state = &mut run.state;
        let (job, head) = (state.id, state.log_head);
        // A note proves nothing without the head that the chain behind it leads to.
        state.fold = state.fold.filter(|_| head.is_some());
        if head.is_none() && records.iter().all(|record| record.link.is_none()) {
            return Self { run, records, end, fault: None };
        }
        let links = links(job, state.fold.as_ref(), &records);
        for (record, link) in records.iter_mut().zip(links) {
            record.link.get_or_insert(link);
        }
        let log = LogChain { job, is_ended: true, is_imported: true, head, fold: state.fold, records };
        let fault = log.verify(&[]).err();
        Self { run, records: log.records, end, fault }
    }

    /// The head of the chain, if the log is chained.
    pub fn log_head(&self) -> Option<ChainLink> {
        self.records.last()?.link
    }

    /// Whether a stored log has the same records.
    pub fn has_records(&self, stored: &[LogRecord]) -> bool {
        let is_same = |(one, other): (&LogRecord, &LogRecord)| one.is_same(other);
        self.records.len() == stored.len() && self.records.iter().zip(stored).all(is_same)
    }

    /// The job as a user of this server has it. It has no batch here.
    pub fn job(&self, user: UserId, now_ms: u64) -> Job {
        let EndedRun { state, spec, hides_input, usage, .. } = &self.run;
        let queued = Job::queued(state.id, user, state.created_at_ms, spec);
        let outcome = JobOutcome {
            event: self.end.clone(),
            output_text: String::new(),
            messages: Vec::new(),
            summary: None,
        };
        Job {
            status: state.status,
            attempt: state.attempt,
            failed_runs: state.failed_runs,
            epoch: state.epoch,
            started_at_ms: state.started_at_ms,
            finished_at_ms: Some(state.finished_at_ms),
            usage: usage.total(),
            error: outcome.error(),
            last_event_id: state.last_event_id,
            input: queued.input.clone().filter(|_| !hides_input),
            imported_at_ms: Some(now_ms),
            ..queued
        }
    }

    /// Bytes that it takes in the store, about.
    pub fn bytes(&self) -> usize {
        let records = self.records.iter().map(|record| record.body.len());
        records.fold(self.run.output.len(), usize::saturating_add)
    }
}
