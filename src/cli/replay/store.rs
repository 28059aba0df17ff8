//! The store of a replay: one job, whose log is in memory.

use super::log::{ReplayLog, RunControls};
use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{EngineMark, Event, Record, SequencedEvent, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome, JobSpec, PendingApproval};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    CancelToken, ChangeWatch, Clock, DecidedJob, EventPage, Fence, Idempotent, JobChangeError, JobPage,
    JobQuery, Lease, LeaseError, NewJob, Store, StoreError, SubmitError, Ticket, Urgency, ended_watch,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The job and its log.
pub(super) struct ReplayStore {
    job: Job,
    spec: Arc<JobSpec>,
    history: History,
    clock: Arc<dyn Clock>,
    log: Mutex<ReplayLog>,
    output: Mutex<String>,
    /// How long the job has to wait, milliseconds: a provider is busy.
    wait_ms: Mutex<Option<u64>>,
}

impl ReplayStore {
    pub(super) fn new(
        job: Job,
        spec: JobSpec,
        history: History,
        clock: Arc<dyn Clock>,
        log: ReplayLog,
    ) -> Self {
        Self {
            job,
            spec: Arc::new(spec),
            history,
            clock,
            log: Mutex::new(log),
            output: Mutex::default(),
            wait_ms: Mutex::default(),
        }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, ReplayLog> {
        locked(&self.log)
    }

    pub(super) fn job_id(&self) -> JobId {
        self.job.id
    }

    /// The answer of the job, if it has ended.
    pub(super) fn output(&self) -> String {
        locked(&self.output).clone()
    }

    /// Takes the wait that a provider wants.
    pub(super) fn take_wait_ms(&self) -> Option<u64> {
        locked(&self.wait_ms).take()
    }

    /// Begins the next run, if there is one. The second token makes it give the job back.
    pub(super) fn begin_run(&self) -> Option<(Lease, CancelToken)> {
        let mut log = self.log();
        if !log.reaches_run() {
            return None;
        }
        let token = || CancelToken::new(Arc::clone(&self.clock));
        let controls = RunControls { cancel: token(), draining: token() };
        log.begin(controls.clone());
        let job = Job { attempt: log.attempt, failed_runs: log.failed_runs, ..self.job.clone() };
        let (spec, cancel) = (Arc::clone(&self.spec), controls.cancel);
        Some((Lease { job, spec, cancel, is_in_memory: false }, controls.draining))
    }

    /// Writes records of the running loop.
    fn write(&self, records: impl IntoIterator<Item = Record>) -> Result<(), LeaseError> {
        let mut log = self.log();
        let is_written = log.is_running() && records.into_iter().all(|record| log.push(record));
        if !is_written {
            return Err(LeaseError::Fenced { job: self.job.id });
        }
        log.interrupt_here();
        Ok(())
    }

    /// Ends the run with these marks and a status event. If the job was cancelled meanwhile, that follows
    /// instead.
    fn give_back(&self, mark: Option<EngineMark>, event: Event) -> Result<(), LeaseError> {
        let written = self.write(mark.map(Record::from));
        let mut log = self.log();
        let place = log.len();
        let is_cancelled =
            log.is_checked() && matches!(log.recording().event_at(place), Some(Event::Error { .. }));
        let is_written = written.is_ok() && (is_cancelled || log.push(event.into()));
        log.end_run();
        if is_written { Ok(()) } else { Err(LeaseError::Fenced { job: self.job.id }) }
    }

    /// The attempt before the one that does not count.
    fn attempt_before(&self) -> u32 {
        self.log().attempt.saturating_sub(1)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The loop asks for nothing but the log of its job.
fn unused<T, E: From<StoreError>>() -> Ticket<T, E> {
    Ticket::resolved(Err(StoreError::Closed.into()))
}

impl Store for ReplayStore {
    fn append(&self, _: Fence, records: Vec<Record>, _: Urgency) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(records))
    }

    fn finish(&self, _: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError> {
        *locked(&self.output) = ending.output_text;
        let written = self.write(records.into_iter().chain([ending.event.into()]));
        self.log().end_run();
        Ticket::resolved(written)
    }

    fn finish_and_claim(
        &self,
        fence: Fence,
        records: Vec<Record>,
        ending: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>) {
        (self.finish(fence, records, ending).wait(), None)
    }

    fn release(&self, _: Fence) -> Ticket<(), LeaseError> {
        let event =
            Event::Status { status: StatusPhase::Queued, attempt: self.attempt_before(), reason: None };
        Ticket::resolved(self.give_back(None, event))
    }

    fn postpone(&self, _: Fence, reason: String, _: u64) -> Ticket<(), LeaseError> {
        let attempt = self.log().attempt;
        let event = Event::Status { status: StatusPhase::Retrying, attempt, reason: Some(reason) };
        let given_back = self.give_back(None, event);
        let mut log = self.log();
        log.failed_runs = log.failed_runs.saturating_add(1);
        Ticket::resolved(given_back)
    }

    fn defer(&self, _: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        *locked(&self.wait_ms) = Some(delay_ms);
        let (status, attempt) = (StatusPhase::Queued, self.attempt_before());
        let event = Event::Status { status, attempt, reason: Some(reason) };
        Ticket::resolved(self.give_back(Some(EngineMark::Deferred), event))
    }

    fn wait_for_approval(&self, _: Fence, calls: Vec<ToolCall>, _: u64) -> Ticket<(), LeaseError> {
        let pending = PendingApproval::new(calls, 0);
        let mark = EngineMark::ApprovalAsked { id_refs: pending.id_refs() };
        let (attempt, reason) = (self.attempt_before(), pending.approval_text(self.job.id));
        let event = Event::WaitingApproval { attempt, reason, calls: pending.id_refs() };
        Ticket::resolved(self.give_back(Some(mark), event))
    }

    fn log(&self, _: JobId) -> Result<Vec<Record>, StoreError> {
        Ok(Self::log(self).records.clone())
    }

    fn history(&self, _: &Job, _: usize) -> Result<History, StoreError> {
        Ok(self.history.clone())
    }

    /// Jobs of earlier requests are not part of the recording.
    fn job(&self, _: UserId, _: JobId) -> Result<Option<Job>, StoreError> {
        Ok(None)
    }

    /// The history may be another one by now. An earlier version recorded none.
    fn recorded_results(&self) -> Option<BTreeMap<JobId, String>> {
        let log = self.log();
        let (_, results) = log.recording().instructions_of_run(log.len());
        Some(results.cloned().unwrap_or_default())
    }

    fn submit(&self, _: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        unused()
    }

    fn submit_once(&self, _: NewJob, _: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        unused()
    }

    fn claim(&self, _: usize) -> Ticket<Vec<Lease>> {
        unused()
    }

    fn decide(&self, _: UserId, _: JobId, _: ApprovalDecision) -> Ticket<Option<DecidedJob>, JobChangeError> {
        unused()
    }

    fn retry(&self, _: UserId, _: JobId) -> Ticket<Option<Job>, JobChangeError> {
        unused()
    }

    fn delete(&self, _: UserId, _: JobId) -> Ticket<bool, JobChangeError> {
        unused()
    }

    fn cancel(&self, _: UserId, _: JobId) -> Ticket<Option<Job>> {
        unused()
    }

    fn probe(&self) -> Ticket<()> {
        unused()
    }

    fn output(&self, _: JobId) -> Result<Option<String>, StoreError> {
        Err(StoreError::Closed)
    }

    fn input(&self, _: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        Err(StoreError::Closed)
    }

    fn request(&self, _: UserId, _: JobId) -> Result<Option<JobSpec>, StoreError> {
        Err(StoreError::Closed)
    }

    fn jobs(&self, _: &JobQuery) -> Result<JobPage, StoreError> {
        Err(StoreError::Closed)
    }

    fn is_known(&self, _: UserId, _: &[u8; 32]) -> Result<bool, StoreError> {
        Err(StoreError::Closed)
    }

    fn unfinished_count(&self, _: UserId, _: u64) -> Result<u64, StoreError> {
        Err(StoreError::Closed)
    }

    fn events(&self, _: JobId, _: u64, _: usize) -> Result<EventPage, StoreError> {
        let events: Vec<SequencedEvent> = Vec::new();
        Ok(EventPage { events, last_seq: 0 })
    }

    fn step_text(&self, _: JobId, _: u64, _: u64) -> Result<String, StoreError> {
        Err(StoreError::Closed)
    }

    fn watch(&self, _: JobId) -> ChangeWatch {
        ended_watch()
    }

    fn claim_next(&self, _: &CancelToken, _: Duration) -> Result<Option<Lease>, StoreError> {
        Ok(None)
    }
}
