//! An in-memory store for one job. It keeps the contract of the port and fails where a test requests it.

use crate::domain::approval::ApprovalDecision;
use crate::domain::event::{EngineMark, Event, Record, StatusPhase};
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{
    ConversationSummary, ConversationTurn, History, Job, JobOutcome, JobSpec, JobStatus, PendingApproval,
};
use crate::domain::message::Message;
use crate::domain::tool::ToolCall;
use crate::ports::{
    CancelReason, CancelToken, ChangeWatch, Clock, DecidedJob, EventPage, Fence, Idempotent, JobChangeError,
    JobPage, JobQuery, Lease, LeaseError, NewJob, Store, StoreError, SubmitError, Ticket, Urgency,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Seconds that the job may take.
pub(super) const TIMEOUT_S: u64 = 600;

/// An operation that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Op {
    Claim,
    Append,
    Finish,
    Release,
    Postpone,
    Log,
    History,
    Probe,
}

/// Receives the operation and its number, counted from 1 for each kind.
type Fault = dyn Fn(Op, usize) -> Option<LeaseError> + Send + Sync;

struct State {
    job: Job,
    log: Vec<Record>,
    stop: Option<CancelToken>,
    ready: bool,
    counts: HashMap<Op, usize>,
    /// Writes that may linger are acknowledged with the next urgent one.
    lingers: bool,
    /// Ends that also make the job claimable again, with an empty log.
    restarting_ends: usize,
    writes_left: Option<usize>,
    postponed_ms: Vec<u64>,
    ending: Option<JobOutcome>,
    has_history: bool,
}

pub(super) struct FakeStore {
    spec: Arc<JobSpec>,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    fault: Mutex<Arc<Fault>>,
    urgent_writes: Arc<AtomicUsize>,
    is_in_memory: AtomicBool,
}

pub(in crate::engine) fn spec() -> JobSpec {
    JobSpec {
        system_prompt: Some("be brief".into()),
        ..JobSpec::new("fake".into(), vec![Message::user("go")], 3, TIMEOUT_S)
    }
}

impl FakeStore {
    /// One job, queued.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let spec = spec();
        let state = State {
            job: Job::queued(JobId::from_bits(7), UserId::SINGLE, 0, &spec),
            log: vec![Event::Status { status: StatusPhase::Queued, attempt: 0, reason: None }.into()],
            stop: None,
            ready: true,
            counts: HashMap::new(),
            lingers: false,
            restarting_ends: 0,
            writes_left: None,
            postponed_ms: Vec::new(),
            ending: None,
            has_history: true,
        };
        Self {
            spec: Arc::new(spec),
            clock,
            state: Mutex::new(state),
            fault: Mutex::new(Arc::new(|_, _| None)),
            urgent_writes: Arc::default(),
            is_in_memory: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `fault` before every further operation.
    pub(super) fn fail_when<E: Into<LeaseError>>(
        &self,
        fault: impl Fn(Op, usize) -> Option<E> + Send + Sync + 'static,
    ) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(move |op, nth| fault(op, nth).map(Into::into));
    }

    /// Adds an event that no worker wrote.
    pub(super) fn insert_event(&self, event: Event) {
        self.state().log.push(event.into());
    }

    /// Acknowledges streamed pieces with the next urgent write only. They fail if none follows.
    pub(super) fn linger(&self) {
        self.state().lingers = true;
    }

    /// The next end brings the lease of another run of the job.
    pub(super) fn start_anew(&self) {
        self.state().restarting_ends += 1;
    }

    /// The process dies after `writes` more writes: only data on the disk survives.
    pub(super) fn die_after(&self, writes: usize) {
        self.state().writes_left = Some(writes);
    }

    /// The process starts again.
    pub(super) fn restart(&self) {
        let mut state = self.state();
        state.writes_left = None;
        state.stop = None;
        state.ready = !state.job.status.is_terminal() && state.job.status != JobStatus::Waiting;
    }

    /// Cancels the job's lease. With `LeaseLost` the job also returns to the queue.
    pub(super) fn cancel_lease(&self, reason: CancelReason) {
        let mut state = self.state();
        if let Some(token) = state.stop.clone() {
            token.cancel(reason);
        }
        if reason == CancelReason::LeaseLost {
            state.stop = None;
            state.ready = true;
        }
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.state().log.clone()
    }

    pub(super) fn count(&self, op: Op) -> usize {
        self.state().counts.get(&op).copied().unwrap_or(0)
    }

    /// The terminal events in the log.
    pub(super) fn terminal_events(&self) -> Vec<Event> {
        let terminal = |record: Record| match record {
            Record::Event(event) if event.is_terminal() => Some(event),
            _ => None,
        };
        self.records().into_iter().filter_map(terminal).collect()
    }

    /// The answer that the job ended with.
    pub(super) fn output(&self) -> String {
        self.state().ending.as_ref().map(|ending| ending.output_text.clone()).unwrap_or_default()
    }

    /// The messages that the job added to the conversation.
    pub(super) fn messages(&self) -> Vec<Message> {
        self.state().ending.as_ref().map(|ending| ending.messages.clone()).unwrap_or_default()
    }

    /// The summary of the conversation's oldest turns after the job's end.
    pub(super) fn summary(&self) -> Option<ConversationSummary> {
        self.state().ending.as_ref().and_then(|ending| ending.summary.clone())
    }

    /// The job is the first of its conversation.
    pub(super) fn forget_history(&mut self) {
        self.state().has_history = false;
    }

    /// The job is claimed in memory.
    pub(super) fn lease_in_memory(&self) {
        self.is_in_memory.store(true, Ordering::SeqCst);
    }

    /// The delay after each failed run.
    pub(super) fn postponed_ms(&self) -> Vec<u64> {
        self.state().postponed_ms.clone()
    }

    /// Changes the request.
    pub(super) fn change_spec(&mut self, change: impl FnOnce(&mut JobSpec)) {
        change(Arc::make_mut(&mut self.spec));
    }

    /// Sets the number of attempts.
    pub(super) fn allow_attempts(&mut self, max_attempts: u32) {
        Arc::make_mut(&mut self.spec).max_attempts = max_attempts;
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state().ready
    }

    /// An operation without a lease.
    fn enter_unleased(&self, op: Op) -> Result<(), StoreError> {
        self.enter(op).map_err(unleased)
    }

    fn enter(&self, op: Op) -> Result<(), LeaseError> {
        let nth = {
            let mut state = self.state();
            let count = state.counts.entry(op).or_default();
            *count += 1;
            *count
        };
        let fault = Arc::clone(&self.fault.lock().unwrap_or_else(PoisonError::into_inner));
        fault(op, nth).map_or(Ok(()), Err)
    }

    fn write(&self, op: Op, fence: Option<Fence>) -> Result<MutexGuard<'_, State>, LeaseError> {
        self.enter(op)?;
        let mut state = self.state();
        if let Some(fence) = fence
            && (fence.epoch != state.job.epoch || state.stop.is_none())
        {
            return Err(LeaseError::Fenced { job: fence.job });
        }
        if let Some(remaining) = &mut state.writes_left {
            *remaining = remaining.checked_sub(1).ok_or(StoreError::Closed)?;
        }
        Ok(state)
    }
}

fn unleased(error: LeaseError) -> StoreError {
    match error {
        LeaseError::Store(error) => error,
        LeaseError::Fenced { .. } => unreachable!("only a write under a lease is fenced"),
    }
}

impl Store for FakeStore {
    fn submit(&self, _: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        unreachable!("workers submit nothing")
    }

    fn submit_once(&self, _: NewJob, _: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        unreachable!("workers submit nothing")
    }

    fn delete(&self, _: UserId, _: JobId) -> Ticket<bool, JobChangeError> {
        unreachable!("workers delete nothing")
    }

    fn retry(&self, _: UserId, _: JobId) -> Ticket<Option<Job>, JobChangeError> {
        unreachable!("workers retry nothing")
    }

    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(Op::Release, Some(fence)).map(|mut state| {
            state.job.status = JobStatus::Queued;
            state.job.attempt -= 1;
            state.stop = None;
            state.ready = true;
            state.postponed_ms.push(delay_ms);
            let (status, attempt, reason) = (StatusPhase::Queued, state.job.attempt, Some(reason));
            state.log.push(EngineMark::Deferred.into());
            state.log.push(Event::Status { status, attempt, reason }.into());
        }))
    }

    fn wait_for_approval(
        &self,
        fence: Fence,
        calls: Vec<ToolCall>,
        timeout_ms: u64,
    ) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(Op::Release, Some(fence)).map(|mut state| {
            let pending = PendingApproval { calls, expires_at_ms: timeout_ms };
            let (attempt, calls) = (state.job.attempt - 1, pending.id_refs());
            state.log.push(EngineMark::ApprovalAsked { id_refs: calls.clone() }.into());
            let reason = pending.approval_text(state.job.id);
            state.log.push(Event::WaitingApproval { attempt, reason, calls }.into());
            state.job.attempt = attempt;
            state.job.status = JobStatus::Waiting;
            state.job.approval = Some(pending);
            state.stop = None;
        }))
    }

    fn decide(
        &self,
        _: UserId,
        _: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError> {
        Ticket::resolved(self.write(Op::Release, None).map_err(|error| unleased(error).into()).map(
            |mut state| {
                let waiting = state.job.approval.as_ref().map(PendingApproval::id_refs).unwrap_or_default();
                let id_refs = decision.id_refs.unwrap_or(waiting);
                let calls = id_refs.clone();
                let pending = state.job.approval.as_ref().map_or_else(Vec::new, |wait| wait.calls.clone());
                if let Some(pending) = &mut state.job.approval {
                    pending.calls.retain(|call| !id_refs.contains(&call.id_ref));
                }
                let reason = decision.reason.unwrap_or_default();
                let mark = if decision.approve {
                    let lasting =
                        pending.iter().filter(|call| decision.is_lasting && id_refs.contains(&call.id_ref));
                    let always = lasting.map(|call| call.name.clone()).collect();
                    EngineMark::Approved { id_refs, always }
                } else {
                    EngineMark::Denied { id_refs, reason }
                };
                state.log.push(mark.into());
                if state.job.approval.as_ref().is_some_and(|pending| pending.calls.is_empty()) {
                    state.job.approval = None;
                    state.job.status = JobStatus::Queued;
                    state.ready = true;
                    let (status, attempt) = (StatusPhase::Queued, state.job.attempt);
                    state.log.push(Event::Status { status, attempt, reason: None }.into());
                }
                Some(DecidedJob { job: state.job.clone(), calls })
            },
        ))
    }

    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(Op::Postpone, Some(fence)).map(|mut state| {
            state.job.status = JobStatus::Queued;
            state.job.failed_runs += 1;
            state.postponed_ms.push(delay_ms);
            let (status, attempt, reason) = (StatusPhase::Retrying, state.job.attempt, Some(reason));
            state.log.push(Event::Status { status, attempt, reason }.into());
            state.stop = None;
            state.ready = true;
        }))
    }

    fn claim(&self, _: usize) -> Ticket<Vec<Lease>> {
        Ticket::resolved(self.write(Op::Claim, None).map_err(unleased).map(|mut state| {
            if !std::mem::take(&mut state.ready) {
                return Vec::new();
            }
            state.job.epoch += 1;
            state.job.attempt += 1;
            state.job.status = JobStatus::Running;
            let attempt = state.job.attempt;
            state.log.push(Event::Status { status: StatusPhase::Running, attempt, reason: None }.into());
            let stop = state.stop.insert(CancelToken::new(Arc::clone(&self.clock))).clone();
            let (job, spec) = (state.job.clone(), Arc::clone(&self.spec));
            let is_in_memory = self.is_in_memory.load(Ordering::SeqCst);
            vec![Lease { job, spec, cancel: stop, is_in_memory }]
        }))
    }

    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<(), LeaseError> {
        let outcome = self.write(Op::Append, Some(fence)).map(|mut state| state.log.extend(records));
        let urgent_writes = Arc::clone(&self.urgent_writes);
        if urgency == Urgency::Now {
            urgent_writes.fetch_add(1, Ordering::SeqCst);
        }
        if urgency == Urgency::Now || !self.state().lingers {
            return Ticket::resolved(outcome);
        }
        let (sender, ticket) = Ticket::new();
        let (clock, before) = (Arc::clone(&self.clock), urgent_writes.load(Ordering::SeqCst));
        std::thread::spawn(move || {
            let is_committed = || urgent_writes.load(Ordering::SeqCst) > before;
            for _ in 0..500 {
                CancelToken::new(Arc::clone(&clock)).wait(Duration::from_millis(10));
                if is_committed() {
                    drop(sender.send(outcome));
                    return;
                }
            }
        });
        ticket
    }

    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(Op::Finish, Some(fence)).map(|mut state| {
            state.job.status = ending.status();
            state.log.extend(records);
            state.log.push(ending.event.clone().into());
            state.ending = Some(ending);
            state.stop = None;
        }))
    }

    fn finish_and_claim(
        &self,
        fence: Fence,
        records: Vec<Record>,
        ending: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>) {
        let ended = self.finish(fence, records, ending).wait();
        let mut state = self.state();
        let Some(left) = state.restarting_ends.checked_sub(1) else { return (ended, None) };
        state.restarting_ends = left;
        state.ready = true;
        state.log.truncate(1);
        drop(state);
        (ended, self.claim(1).wait().ok().and_then(|mut leases| leases.pop()))
    }

    fn release(&self, fence: Fence) -> Ticket<(), LeaseError> {
        Ticket::resolved(self.write(Op::Release, Some(fence)).map(|mut state| {
            state.job.attempt -= 1;
            state.job.status = JobStatus::Queued;
            let attempt = state.job.attempt;
            state.log.push(Event::Status { status: StatusPhase::Queued, attempt, reason: None }.into());
            state.stop = None;
            state.ready = true;
        }))
    }

    fn cancel(&self, _: UserId, _: JobId) -> Ticket<Option<Job>> {
        unreachable!("workers cancel nothing")
    }

    fn probe(&self) -> Ticket<()> {
        Ticket::resolved(self.enter_unleased(Op::Probe))
    }

    fn job(&self, _: UserId, _: JobId) -> Result<Option<Job>, StoreError> {
        Ok(Some(self.state().job.clone()))
    }

    fn output(&self, _: JobId) -> Result<Option<String>, StoreError> {
        unreachable!("workers read no output")
    }

    fn input(&self, _: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        unreachable!("workers read the whole spec")
    }

    fn request(&self, _: UserId, _: JobId) -> Result<Option<JobSpec>, StoreError> {
        unreachable!("workers read the whole spec")
    }

    fn jobs(&self, _: &JobQuery) -> Result<JobPage, StoreError> {
        unreachable!("workers list nothing")
    }

    fn is_known(&self, _: UserId, _: &[u8; 32]) -> Result<bool, StoreError> {
        unreachable!("workers have no keys")
    }

    fn unfinished_count(&self, _: UserId, _: u64) -> Result<u64, StoreError> {
        unreachable!("workers have no quota")
    }

    fn events(&self, _: JobId, _: u64, _: usize) -> Result<EventPage, StoreError> {
        unreachable!("workers read the log whole")
    }

    fn step_text(&self, _: JobId, _: u64, _: u64) -> Result<String, StoreError> {
        unreachable!("workers read the log whole")
    }

    fn log(&self, _: JobId) -> Result<Vec<Record>, StoreError> {
        self.enter_unleased(Op::Log)?;
        Ok(self.records())
    }

    fn history(&self, _: &Job, _: usize) -> Result<History, StoreError> {
        self.enter_unleased(Op::History)?;
        if !self.state().has_history {
            return Ok(History { wants_title: true, ..History::default() });
        }
        let messages = vec![Message::user("earlier"), Message::assistant("yes")];
        Ok(History { turns: vec![ConversationTurn { number: 1, messages }], ..History::default() })
    }

    fn watch(&self, _: JobId) -> ChangeWatch {
        unreachable!("workers watch nothing")
    }

    fn claim_next(&self, stop: &CancelToken, timeout: Duration) -> Result<Option<Lease>, StoreError> {
        let lease = self.claim(1).wait()?.pop();
        if lease.is_none() && !timeout.is_zero() {
            stop.wait(Duration::from_millis(1));
        }
        Ok(lease)
    }
}
