//! The log of a run as a script: what the models answered, what the tools returned, and what came from
//! outside of the loop, such as decisions of users, cancellations and crashes.

use crate::domain::canonical::canonical;
use crate::domain::event::{EngineMark, Event, FailureCode, Record, StatusPhase};
use crate::domain::id::JobId;
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::run::{ImportedRun, LogStage};
use crate::domain::tool::ToolCall;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The reason in the log of a job that a crash or a disk error has interrupted begins so.
const RESUMED: &str = "resumed after";

/// The reason in the log of a job that ran too long has this text.
const RAN_LONGER: &str = "the job ran longer than its timeout_s";

/// Why a run cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordingError {
    /// Retention has removed what a replay needs.
    #[error("retention has shortened the log of {0}")]
    Shortened(String),
    /// A record cannot be read.
    #[error("{place} cannot be read: {error}")]
    Unreadable { place: RecordPlace, error: String },
    /// The run has ended before.
    #[error("the run has no model call that another model could answer")]
    NoCalls,
    /// The step does not exist.
    #[error("the run has {0} model calls, so there is no step {1}")]
    NoStep(u32, u32),
}

/// What ends a run of the loop from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// A crash, or a fault of the server: the worker writes nothing more.
    Lost,
    /// The server stopped, and gave the job back.
    Released,
    /// A user cancelled the job.
    Cancelled,
    /// The job ran longer than its `timeout_s`.
    TimedOut,
    /// The job's `deadline_at` passed.
    Overdue,
}

/// A log with its records parsed.
#[derive(Debug)]
pub(super) struct RunRecording {
    pub(super) lines: Vec<LogRecord>,
    pub(super) records: Vec<Record>,
}

/// The jobs whose answers a prompt of these records shows.
pub(super) fn jobs_in_prompts(records: &[Record]) -> BTreeSet<JobId> {
    let results = records.iter().filter_map(|record| match record {
        Record::Mark(EngineMark::Instructions { results, .. }) => Some(results.keys().copied()),
        _ => None,
    });
    results.flatten().collect()
}

impl RunRecording {
    pub(super) fn new(run: &ImportedRun) -> Result<Self, RecordingError> {
        let state = &run.run.state;
        if state.log != LogStage::Whole {
            return Err(RecordingError::Shortened(state.id.to_string()));
        }
        let parse = |line: &LogRecord| {
            let unreadable = |error: serde_json::Error| RecordingError::Unreadable {
                place: line.place,
                error: error.to_string(),
            };
            line.parse().map_err(unreadable)
        };
        let records = run.records.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { lines: run.records.clone(), records })
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn at(&self, place: usize) -> Option<&Record> {
        self.records.get(place)
    }

    /// The event at a place, if there is one.
    pub(super) fn event_at(&self, place: usize) -> Option<&Event> {
        match self.at(place) {
            Some(Record::Event(event)) => Some(event),
            _ => None,
        }
    }

    /// The mark at a place, if there is one.
    pub(super) fn mark_at(&self, place: usize) -> Option<&EngineMark> {
        match self.at(place) {
            Some(Record::Mark(mark)) => Some(mark),
            _ => None,
        }
    }

    /// What interrupts the loop at a place, as the record there shows.
    pub(super) fn interruption(&self, place: usize) -> Option<Interruption> {
        match self.event_at(place)? {
            Event::Status { status: StatusPhase::Queued, reason: None, .. } => Some(Interruption::Released),
            Event::Status { status: StatusPhase::Queued, reason: Some(reason), .. } => {
                reason.starts_with(RESUMED).then_some(Interruption::Lost)
            }
            Event::Status { status: StatusPhase::Retrying, reason: Some(reason), .. } => {
                reason.contains(RAN_LONGER).then_some(Interruption::TimedOut)
            }
            Event::Error { code: FailureCode::Cancelled, .. } => Some(Interruption::Cancelled),
            Event::Error { code: FailureCode::Timeout, .. } => Some(Interruption::TimedOut),
            Event::Error { code: FailureCode::DeadlineExceeded, .. } => Some(Interruption::Overdue),
            Event::Status { status: StatusPhase::Running, .. }
            | Event::Error {
                code: FailureCode::Poison | FailureCode::Internal | FailureCode::DamagedData,
                ..
            } => Some(Interruption::Lost),
            _ => None,
        }
    }

    /// The place where a model call begins, counted from 1: records before it stay as they are.
    pub(super) fn begin_of_step(&self, step: u32) -> Result<usize, RecordingError> {
        let mut calls = 0_u32;
        let mut is_within = false;
        for (place, record) in self.records.iter().enumerate() {
            let is_part = matches!(
                record,
                Record::Event(Event::CallBegun { .. } | Event::Delta { .. } | Event::ToolCall { .. })
                    | Record::Mark(EngineMark::ModelFinished { .. } | EngineMark::ModelFailed { .. })
            );
            if is_part && !is_within {
                (calls, is_within) = (calls.saturating_add(1), true);
                if calls == step {
                    return Ok(place);
                }
            }
            is_within &= !is_end_of_call(record);
        }
        Err(if calls == 0 { RecordingError::NoCalls } else { RecordingError::NoStep(calls, step) })
    }

    /// Models in the order in which the loop called them: the job's own and its fallbacks.
    pub(super) fn models(&self, own: &str) -> Vec<String> {
        let mut models = vec![own.to_owned()];
        for record in &self.records {
            if let Record::Mark(EngineMark::ModelSwitched { model }) = record
                && !models.contains(model)
            {
                models.push(model.clone());
            }
        }
        models
    }

    /// Tools whose calls waited for an approval.
    pub(super) fn guarded_tools(&self) -> BTreeSet<String> {
        let (mut calls, mut guarded) = (BTreeMap::new(), BTreeSet::new());
        for record in &self.records {
            match record {
                Record::Event(Event::ToolCall { call, .. }) => {
                    calls.insert(call.id_ref.clone(), call.name.clone());
                }
                Record::Mark(EngineMark::ApprovalAsked { id_refs }) => {
                    guarded.extend(id_refs.iter().filter_map(|id_ref| calls.get(id_ref).cloned()));
                }
                _ => {}
            }
        }
        guarded
    }

    /// What tools said in the prompt, and the answers of other jobs in it, if the run of the loop that goes
    /// on at this place has recorded them.
    pub(super) fn instructions_of_run(&self, place: usize) -> (&[String], Option<&BTreeMap<JobId, String>>) {
        let is_of_run = |record: &&Record| {
            !matches!(
                record,
                Record::Event(Event::Status { status: StatusPhase::Queued | StatusPhase::Running, .. })
            )
        };
        let found = self.records.iter().skip(place).take_while(is_of_run).find_map(|record| match record {
            Record::Mark(EngineMark::Instructions { texts, results }) => Some((texts.as_slice(), results)),
            _ => None,
        });
        (found.map(|(texts, _)| texts).unwrap_or_default(), found.map(|(_, results)| results))
    }

    /// Tools of MCP servers that the run called.
    pub(super) fn mcp_tools(&self) -> BTreeSet<&str> {
        let called = self.records.iter().filter_map(|record| match record {
            Record::Event(Event::ToolCall { call, .. }) => Some(call.name.as_str()),
            _ => None,
        });
        called.filter(|name| name.starts_with("mcp_")).collect()
    }

    /// The model that wrote the title, if one did.
    pub(super) fn title_model(&self) -> Option<String> {
        let last = self.len().checked_sub(1)?;
        let Some(Event::Done { suggested_title: Some(_), .. }) = self.event_at(last) else { return None };
        match self.mark_at(last.checked_sub(1)?) {
            Some(EngineMark::Spent { model, .. }) => Some(model.clone()),
            _ => None,
        }
    }

    /// Whether the conversation had no title yet.
    pub(super) fn suggests_title(&self) -> bool {
        let is_title =
            |record: &Record| matches!(record, Record::Event(Event::Done { suggested_title: Some(_), .. }));
        self.records.iter().any(is_title)
    }

    /// The results of the run's calls, by tool and arguments.
    pub(super) fn results(&self) -> BTreeMap<String, VecDeque<String>> {
        let (mut calls, mut results) = (BTreeMap::new(), BTreeMap::<String, VecDeque<String>>::new());
        for record in &self.records {
            match record {
                Record::Event(Event::ToolCall { call, .. }) => {
                    calls.insert(call.id_ref.clone(), call_key(call));
                }
                Record::Event(Event::ToolResult { id_ref, content, skipped: false, .. }) => {
                    if let Some(key) = calls.get(id_ref) {
                        results.entry(key.clone()).or_default().push_back(content.clone());
                    }
                }
                _ => {}
            }
        }
        results
    }
}

fn is_end_of_call(record: &Record) -> bool {
    matches!(record, Record::Mark(EngineMark::ModelFinished { .. } | EngineMark::ModelFailed { .. }))
}

/// Equal calls have equal keys.
pub(super) fn call_key(call: &ToolCall) -> String {
    format!("{} {}", call.name, canonical(&ToolCall::object_of(&call.arguments)))
}
