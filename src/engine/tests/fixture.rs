//! A worker with scripted ports.

use super::store::FakeStore;
use crate::app::system::SystemClock;
use crate::domain::event::FinishReason;
use crate::domain::job::JobStatus;
use crate::domain::message::Message;
use crate::domain::tool::{ToolCall, ToolDefinition, ToolSpec};
use crate::domain::usage::Usage;
use crate::engine::driver::DriveOutcome;
use crate::engine::worker::{Worker, WorkerTick};
use crate::engine::{ActiveLeases, Backoff, EngineLimits, EnginePorts, PreambleOptions};
use crate::ports::{
    CancelToken, Chunk, ChunkSink, Clock, Completion, Entropy, Journal, Model, ModelError, ModelInfo,
    ModelRequest, Store, ToolContext, ToolOutcome, ToolScope, Toolbox, UnexecutedReason,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Limits of the tests: a model may fail four times in a row.
pub(super) const LIMITS: EngineLimits = EngineLimits {
    preamble: PreambleOptions { enabled: false, time_zone: None, text: None },
    model_failures: 4,
    repeated_failures: 3,
    title_model: None,
    history_messages: 10,
    job_result_bytes: 1_024,
    approval_timeout_ms: 60_000,
    backoff: Backoff { first_s: 5, longest_s: 600 },
};

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A test's callback.
pub(super) type Hook = Arc<dyn Fn() + Send + Sync>;

/// An action that a script can run before the test has set it. It runs at most once.
#[derive(Clone, Default)]
pub(super) struct DeferredAction(Arc<Mutex<Option<Once>>>);

type Once = Box<dyn FnOnce() + Send>;

impl DeferredAction {
    pub(super) fn set(&self, act: impl FnOnce() + Send + 'static) {
        *lock(&self.0) = Some(Box::new(act));
    }

    pub(super) fn run_once(&self) {
        let act = lock(&self.0).take();
        if let Some(act) = act {
            act();
        }
    }
}

/// A clock that advances only in pauses.
#[derive(Default)]
pub(super) struct FakeClock {
    now_ms: AtomicU64,
    on_pause: Mutex<Option<Hook>>,
}

impl FakeClock {
    pub(super) fn advance(&self, millis: u64) {
        self.now_ms.fetch_add(millis, Ordering::SeqCst);
    }

    /// Runs the hook at the beginning of every pause.
    pub(super) fn on_pause(&self, hook: impl Fn() + Send + Sync + 'static) {
        *lock(&self.on_pause) = Some(Arc::new(hook));
    }
}

impl Clock for FakeClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.now_ms.load(Ordering::SeqCst)
    }

    fn sleep(&self, stop: &CancelToken, timeout: Duration) {
        let hook = lock(&self.on_pause).clone();
        if let Some(hook) = hook {
            hook();
        }
        if stop.reason().is_none() {
            self.advance(u64::try_from(timeout.as_millis()).expect("a short pause"));
            // Some real time must pass, so that other threads can continue.
            stop.wait(Duration::from_micros(100));
        }
    }
}

struct NoJitter;

impl Entropy for NoJitter {
    fn random(&self) -> u128 {
        0
    }
}

type Script =
    dyn Fn(&ModelRequest, &CancelToken, ChunkSink<'_>) -> Result<Completion, ModelError> + Send + Sync;

/// A model that follows a script and records its requests with their times.
pub(super) struct FakeModel {
    script: Box<Script>,
    clock: Arc<FakeClock>,
    requests: Mutex<Vec<(u64, ModelRequest)>>,
    infos: Mutex<Vec<ModelInfo>>,
    sends_at_once: AtomicBool,
}

impl FakeModel {
    /// Answers arrive whole, without a wait between their pieces.
    pub(super) fn send_at_once(&self) {
        self.sends_at_once.store(true, Ordering::SeqCst);
    }

    /// The requests with their times.
    pub(super) fn requests(&self) -> Vec<(u64, ModelRequest)> {
        lock(&self.requests).clone()
    }
}

impl Model for FakeModel {
    fn ask(
        &self,
        request: &ModelRequest,
        cancel: &CancelToken,
        sink: ChunkSink<'_>,
    ) -> Result<Completion, ModelError> {
        lock(&self.requests).push((self.clock.monotonic_ms(), request.clone()));
        let mut shown_at_once = |chunk: Chunk<'_>| {
            let is_text = matches!(chunk, Chunk::Text(_) | Chunk::Thinking(_) | Chunk::TextWasThinking);
            let flow = sink(chunk);
            if flow.is_break() || !is_text || self.sends_at_once.load(Ordering::SeqCst) {
                return flow;
            }
            sink(Chunk::CaughtUp)
        };
        (self.script)(request, cancel, &mut shown_at_once)
    }

    fn models(&self) -> Vec<ModelInfo> {
        lock(&self.infos).clone()
    }
}

/// Tools that run in reverse order, so that results wait for each other. `effect` is the one that is not
/// idempotent.
#[derive(Default)]
pub(super) struct FakeTools {
    runs: Mutex<Vec<ToolCall>>,
    on_call: Mutex<Option<Hook>>,
    on_start: Mutex<Option<Hook>>,
    guarded: Mutex<Vec<String>>,
    settled: Mutex<Vec<(String, UnexecutedReason)>>,
}

impl FakeTools {
    /// All runs, across restarts.
    pub(super) fn runs(&self) -> Vec<ToolCall> {
        lock(&self.runs).clone()
    }

    /// The calls that were settled without a run, with the reason.
    pub(super) fn settled(&self) -> Vec<(String, UnexecutedReason)> {
        lock(&self.settled).clone()
    }

    /// Calls of these tools need approval.
    pub(super) fn require_approval(&self, names: &[&str]) {
        *lock(&self.guarded) = names.iter().map(|name| (*name).to_owned()).collect();
    }

    /// Runs the hook within every call.
    pub(super) fn on_call(&self, hook: impl Fn() + Send + Sync + 'static) {
        *lock(&self.on_call) = Some(Arc::new(hook));
    }

    /// Runs the hook before the batch's first call begins.
    pub(super) fn on_start(&self, hook: impl Fn() + Send + Sync + 'static) {
        *lock(&self.on_start) = Some(Arc::new(hook));
    }
}

fn outcome(content: &str, skipped: bool) -> ToolOutcome {
    ToolOutcome { content: content.to_owned(), skipped, full_result: None }
}

impl Toolbox for FakeTools {
    fn offered(&self, scope: &ToolScope<'_>) -> Vec<ToolDefinition> {
        let spec = |name: &'static str| ToolSpec {
            name: name.into(),
            description: "".into(),
            parameters: serde_json::Value::Null,
        };
        ["effect", "pure"]
            .into_iter()
            .filter(|name| scope.choice.allows(name))
            .map(|name| spec(name).into())
            .collect()
    }

    fn has_tool(&self, name: &str) -> bool {
        self.offered(&ToolScope::EVERY).iter().any(|tool| tool.name == name)
    }
    fn only_computes(&self, name: &str) -> bool {
        name == "pure"
    }
    fn needs_approval(&self, name: &str, approval_tools: &[String]) -> bool {
        lock(&self.guarded).iter().chain(approval_tools).any(|guarded| guarded == name)
    }

    fn settled(&self, call: &ToolCall, _: &ToolContext, why: UnexecutedReason, _: &str) {
        lock(&self.settled).push((call.id_ref.clone(), why));
    }

    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        if let Some(hook) = lock(&self.on_start).clone() {
            hook();
        }
        for call in calls.iter().rev() {
            let may_start = || call.name != "effect" || journal.started(call).is_continue();
            if context.cancel.is_cancelled() || !may_start() {
                journal.finished(call, outcome("(cancelled)", true));
                continue;
            }
            if self.needs_approval(&call.name, &context.rights.approval_tools)
                && !context.approved.covers(&call.id_ref)
            {
                journal.finished(call, outcome("(unasked)", true));
                continue;
            }
            lock(&self.runs).push(call.clone());
            if let Some(hook) = lock(&self.on_call).clone() {
                hook();
            }
            let result = match call.name.as_str() {
                "broken" => r#"{"success":false}"#.to_owned(),
                _ => format!("ran {}", call.id_ref),
            };
            journal.finished(call, outcome(&result, false));
        }
    }
}

/// A worker with its ports.
pub(super) struct Fixture {
    pub(super) store: Arc<FakeStore>,
    pub(super) model: Arc<FakeModel>,
    pub(super) tools: Arc<FakeTools>,
    pub(super) clock: Arc<FakeClock>,
    pub(super) draining: CancelToken,
    pub(super) leases: ActiveLeases,
}

impl Fixture {
    /// One queued job, and a model that follows the script.
    pub(super) fn new(
        script: impl Fn(&ModelRequest, &CancelToken, ChunkSink<'_>) -> Result<Completion, ModelError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let clock = Arc::new(FakeClock::default());
        let model = FakeModel {
            script: Box::new(script),
            clock: Arc::clone(&clock),
            requests: Mutex::default(),
            infos: Mutex::default(),
            sends_at_once: AtomicBool::new(false),
        };
        Self {
            store: Arc::new(FakeStore::new(Arc::clone(&clock) as Arc<dyn Clock>)),
            model: Arc::new(model),
            tools: Arc::default(),
            clock,
            draining: CancelToken::new(Arc::new(SystemClock::new())),
            leases: ActiveLeases::default(),
        }
    }

    /// Sets the configured models.
    pub(super) fn configure(&self, infos: Vec<ModelInfo>) {
        *lock(&self.model.infos) = infos;
    }

    pub(super) fn ports(&self) -> EnginePorts {
        EnginePorts {
            store: Arc::clone(&self.store) as Arc<dyn Store>,
            model: Arc::clone(&self.model) as Arc<dyn Model>,
            tools: Arc::clone(&self.tools) as Arc<dyn Toolbox>,
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            entropy: Arc::new(NoJitter),
            meter: Arc::new(crate::ports::NoopMeter),
        }
    }

    pub(super) fn tick(&self) -> WorkerTick {
        self.tick_within(LIMITS)
    }

    pub(super) fn tick_within(&self, limits: EngineLimits) -> WorkerTick {
        Worker::new(self.ports(), limits, self.draining.clone(), self.leases.clone()).tick(Duration::ZERO)
    }

    /// The outcome of the job in one tick.
    pub(super) fn drive(&self) -> DriveOutcome {
        match self.tick() {
            WorkerTick::Drove(_, drive) => drive,
            other => panic!("the job was not driven: {other:?}"),
        }
    }

    /// Ticks until the job has ended, which it must (P4).
    pub(super) fn finish(&self) {
        for _ in 0..20 {
            if self.store.terminal_events().is_empty() {
                drop(self.tick());
            }
        }
        assert_eq!(
            self.store.terminal_events().len(),
            1,
            "one terminal event (P4): {:?}",
            self.store.records()
        );
    }

    pub(super) fn model_is_unknown(&self) -> bool {
        lock(&self.model.infos).is_empty()
    }

    /// The elapsed time.
    pub(super) fn clock_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// The job's status.
    pub(super) fn status(&self) -> JobStatus {
        let job = self.store.job(crate::domain::id::UserId::SINGLE, crate::domain::id::JobId::from_bits(7));
        job.expect("readable").expect("there").status
    }
}

/// A tool call with this id and name.
pub(super) fn call(id_ref: &str, name: &str) -> ToolCall {
    ToolCall { id_ref: id_ref.into(), name: name.into(), arguments: "{}".into() }
}

/// An answer that streams two pieces and then makes these calls.
pub(super) fn answer_with_calls(calls: Vec<ToolCall>, sink: ChunkSink<'_>) -> Result<Completion, ModelError> {
    for piece in ["so ", "on"] {
        if sink(Chunk::Text(piece)).is_break() {
            return Err(ModelError::Stopped);
        }
    }
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    if sink(Chunk::Spent(Usage::new(10, 5))).is_break() {
        return Err(ModelError::Stopped);
    }
    Ok(Completion::new(calls, finish_reason))
}

/// Number of answers that this job already has.
pub(super) fn answers(request: &ModelRequest) -> usize {
    // The conversation's history holds one.
    request.messages.iter().filter(|m| matches!(m, Message::Assistant { .. })).count() - 1
}

/// The plan of most tests: two batches of calls, then an answer.
pub(super) fn two_batches(
    request: &ModelRequest,
    _: &CancelToken,
    sink: ChunkSink<'_>,
) -> Result<Completion, ModelError> {
    let calls = match answers(request) {
        0 => vec![call("a", "pure"), call("b", "effect"), call("c", "pure")],
        1 => vec![call("d", "effect")],
        _ => Vec::new(),
    };
    answer_with_calls(calls, sink)
}
