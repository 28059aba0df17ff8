//! The log that a replay writes. While it checks, each record is compared with the recorded one, and what
//! came from outside of the loop happens where the recording has it.

use super::clock::ReplayClock;
use super::recording::{Interruption, RunRecording};
use crate::domain::event::{EngineMark, Event, Record, StatusPhase};
use crate::domain::log_chain::{LogRecord, RecordPlace};
use crate::domain::usage::UsageByModel;
use crate::ports::{CancelReason, CancelToken};
use std::sync::Arc;

/// Where a replay leaves the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) place: RecordPlace,
    /// The recorded text; `None` if the recording ends before.
    pub(super) recorded: Option<String>,
    /// The text of the replay; `None` if it has none here.
    pub(super) replayed: Option<String>,
}

/// How a running loop is stopped from outside.
#[derive(Clone)]
pub(super) struct RunControls {
    pub(super) cancel: CancelToken,
    pub(super) draining: CancelToken,
}

/// The log so far.
pub(super) struct ReplayLog {
    recording: Arc<RunRecording>,
    /// The clock of a replay that checks; `None`: another model or other tools may do something else.
    checking: Option<Arc<ReplayClock>>,
    timeout_ms: u64,
    pub(super) lines: Vec<LogRecord>,
    pub(super) records: Vec<Record>,
    place: RecordPlace,
    /// The step that the newest delta belongs to, and the number of its first.
    step: Option<(u32, u64)>,
    /// Started runs, and those that failed.
    pub(super) attempt: u32,
    pub(super) failed_runs: u32,
    running: Option<RunControls>,
    /// The log begins within a run.
    is_within_run: bool,
    is_ended: bool,
    /// An estimate of the recording has replaced another one.
    has_recorded_estimate: bool,
    pub(super) difference: Option<Difference>,
}

impl ReplayLog {
    /// A log that begins with this many records of the recording. It checks if it gets a clock.
    pub(super) fn new(
        recording: Arc<RunRecording>,
        checking: Option<Arc<ReplayClock>>,
        timeout_s: u64,
        kept: usize,
    ) -> Self {
        let mut log = Self {
            recording,
            checking,
            timeout_ms: timeout_s.saturating_mul(1_000),
            lines: Vec::new(),
            records: Vec::new(),
            place: RecordPlace::BEFORE_FIRST,
            step: None,
            attempt: 0,
            failed_runs: 0,
            running: None,
            is_within_run: kept > 0,
            is_ended: false,
            has_recorded_estimate: false,
            difference: None,
        };
        for _ in 0..kept {
            log.copy();
        }
        log
    }

    /// Whether each record is compared.
    pub(super) fn is_checked(&self) -> bool {
        self.checking.is_some()
    }

    /// How many records there are: the place of the next one in the recording.
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn recording(&self) -> &Arc<RunRecording> {
        &self.recording
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether another run begins. What others wrote before it is copied.
    pub(super) fn reaches_run(&mut self) -> bool {
        if std::mem::take(&mut self.is_within_run) {
            return true;
        }
        if self.is_checked() { self.copy_to_next_run() } else { !self.is_ended }
    }

    fn copy_to_next_run(&mut self) -> bool {
        while self.difference.is_none() {
            match self.recording.at(self.len()) {
                None => return false,
                Some(record) if is_from_outside(record) => {}
                Some(_) => {
                    self.differ(None);
                    return false;
                }
            }
            self.copy();
            if matches!(
                self.records.last(),
                Some(Record::Event(Event::Status { status: StatusPhase::Running, .. }))
            ) {
                return true;
            }
        }
        false
    }

    /// Begins a run, which these tokens stop.
    pub(super) fn begin(&mut self, controls: RunControls) {
        self.running = Some(controls);
        self.interrupt_here();
    }

    /// Ends the run: its lease is gone.
    pub(super) fn end_run(&mut self) {
        self.running = None;
    }

    /// Writes a record. False if it differs from the recorded one: nothing more is written.
    pub(super) fn push(&mut self, record: Record) -> bool {
        if self.difference.is_some() {
            return false;
        }
        let placed = self.placed(record);
        let record = self.with_recorded_estimate(placed);
        let record = self.with_recorded_wait(record);
        let record = self.with_recorded_times(record);
        let Ok(body) = serde_json::to_string(&record) else { return false };
        let place = self.next_place(&record);
        let line = LogRecord { place, body, link: None };
        let is_recorded =
            self.recording.lines.get(self.len()).is_some_and(|recorded| recorded.is_same(&line));
        if self.is_checked() && !is_recorded {
            self.differ(Some(line));
            return false;
        }
        self.add(line, record);
        true
    }

    /// Stops the run where the recording shows that something from outside did so.
    pub(super) fn interrupt_here(&mut self) {
        if let Some(interruption) = self.recording.interruption(self.len()) {
            self.interrupt(interruption, false);
        }
    }

    /// Stops the run; `within_call`: while a model answers.
    pub(super) fn interrupt(&self, interruption: Interruption, within_call: bool) {
        let (Some(clock), Some(running)) = (&self.checking, &self.running) else { return };
        match interruption {
            Interruption::Lost => running.cancel.cancel(CancelReason::LeaseLost),
            Interruption::Cancelled => running.cancel.cancel(CancelReason::Cancelled),
            Interruption::Overdue => running.cancel.cancel(CancelReason::DeadlineExceeded),
            Interruption::Released if within_call => running.cancel.cancel(CancelReason::Shutdown),
            Interruption::Released => running.draining.cancel(CancelReason::Shutdown),
            Interruption::TimedOut => clock.advance(self.timeout_ms.saturating_add(1)),
        }
    }

    /// Notes that the replay does something else here, and stops it.
    pub(super) fn differ(&mut self, replayed: Option<LogRecord>) {
        let recorded = self.recording.lines.get(self.len());
        let place = recorded.or(replayed.as_ref()).map_or(self.place, |line| line.place);
        let (recorded, replayed) = (recorded.map(|line| line.body.clone()), replayed.map(|line| line.body));
        self.difference.get_or_insert(Difference { place, recorded, replayed });
        if let Some(running) = &self.running {
            running.cancel.cancel(CancelReason::LeaseLost);
        }
    }

    /// A delta names the first event of its step.
    fn placed(&self, record: Record) -> Record {
        match record {
            Record::Event(Event::Delta { index, kind, offset, text, .. }) => {
                let first_seq = match self.step {
                    Some((step, first)) if step == index && offset > 0 => first,
                    _ => self.place.seq.saturating_add(1),
                };
                Event::Delta { index, kind, offset, first_seq, text }.into()
            }
            record => record,
        }
    }

    /// The wait before another try is random: the recorded one counts.
    fn with_recorded_wait(&self, record: Record) -> Record {
        let Record::Event(Event::Status { status, attempt, reason: Some(reason) }) = &record else {
            return record;
        };
        match self.recording.event_at(self.len()) {
            Some(Event::Status { status: same, attempt: nth, reason: Some(recorded) })
                if (same, nth) == (status, attempt)
                    && before_wait(recorded).is_some()
                    && before_wait(recorded) == before_wait(reason) =>
            {
                Event::Status { status: *status, attempt: *attempt, reason: Some(recorded.clone()) }.into()
            }
            _ => record,
        }
    }

    /// What an answer has cost that a crash lost is estimated from prices and prompts, which may be others
    /// here: the recorded estimate counts, and the sum at the end is that of the records.
    fn with_recorded_estimate(&mut self, mut record: Record) -> Record {
        if !self.is_checked() {
            return record;
        }
        match (&mut record, self.recording.at(self.len())) {
            (
                Record::Mark(EngineMark::Spent { model, usage, agent: None }),
                Some(Record::Mark(EngineMark::Spent { model: same, usage: recorded, agent: None })),
            ) if model == same => {
                self.has_recorded_estimate |= usage != recorded;
                *usage = *recorded;
            }
            (Record::Event(Event::Done { usage, .. }), _) if self.has_recorded_estimate => {
                let mut sum = UsageByModel::default();
                self.records.iter().for_each(|record| sum.add_record(record, ""));
                *usage = sum.total();
            }
            _ => {}
        }
        record
    }

    /// The replay takes other times for its calls: the recorded ones count.
    fn with_recorded_times(&self, record: Record) -> Record {
        match self.recording.at(self.len()) {
            Some(recorded) if self.is_checked() => record.with_times_of(recorded),
            _ => record,
        }
    }

    fn next_place(&self, record: &Record) -> RecordPlace {
        match record {
            Record::Event(_) => self.place.next_event(),
            Record::Mark(_) => self.place.next_mark(),
        }
    }

    /// Takes the next record of the recording as it is.
    fn copy(&mut self) {
        let place = self.len();
        if let (Some(line), Some(record)) = (self.recording.lines.get(place), self.recording.at(place)) {
            let (line, record) = (line.clone(), record.clone());
            self.add(line, record);
        }
    }

    fn add(&mut self, line: LogRecord, record: Record) {
        self.place = line.place;
        match &record {
            Record::Event(Event::Delta { index, first_seq, .. }) => self.step = Some((*index, *first_seq)),
            Record::Event(Event::Status { status, attempt, .. }) => {
                if *status == StatusPhase::Queued && self.is_ended {
                    (self.is_ended, self.failed_runs) = (false, 0);
                }
                self.attempt = *attempt;
            }
            Record::Event(event) => self.is_ended |= event.is_terminal(),
            Record::Mark(_) => {}
        }
        self.lines.push(line);
        self.records.push(record);
    }
}

/// Whether the store, a user or the server wrote it, and not the loop.
fn is_from_outside(record: &Record) -> bool {
    match record {
        Record::Event(Event::Status { .. } | Event::WaitingApproval { .. } | Event::Error { .. }) => true,
        Record::Event(_) => false,
        Record::Mark(mark) => matches!(mark, EngineMark::Approved { .. } | EngineMark::Denied { .. }),
    }
}

/// The text before ` in N s` at the end.
fn before_wait(reason: &str) -> Option<&str> {
    let (before, seconds) = reason.strip_suffix(" s")?.rsplit_once(" in ")?;
    seconds.bytes().all(|byte| byte.is_ascii_digit()).then_some(before)
}
