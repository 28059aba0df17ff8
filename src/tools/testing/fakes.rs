//! Fakes for tests: a sandbox, empty services, a recording journal, scripted tools.

use crate::domain::handle::ResultHandle;
use crate::domain::id::{JobId, UserId};
use crate::domain::job::JobOrigin;
use crate::domain::job_rights::JobRights;
use crate::domain::limits::Limits;
use crate::domain::tool::{Aliases, Strictness, ToolCall, ToolChoice, ToolSpec, ToolTraits};
use crate::ports::{CancelToken, Clock, Journal, ModelParameters, Tool, ToolContext, ToolError, Toolbox};
use crate::tools::code::RunCaller;
use crate::tools::executor::{BatchLimits, Executor, ExecutorOptions};
use crate::tools::{
    AgentServices, BashOptions, BashRules, CodeRunner, ToolCacheOptions, ToolDeps, ToolOptions, registered,
};
use nanoclaw_sandbox::{Level, Program, RunRecord, RunStatus};
use serde_json::{Map, Value, json};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Every reading advances the time by one millisecond.
#[derive(Default)]
struct TickingClock(AtomicUsize);

impl Clock for TickingClock {
    fn now_ms(&self) -> u64 {
        self.monotonic_ms()
    }
    fn monotonic_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst) as u64
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

/// Prints the language and the code. Code that contains "raise" fails.
struct FakeRunner(&'static [Level]);

impl CodeRunner for FakeRunner {
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord {
        let fails = program.code.contains("raise");
        let (status, error) = if fails {
            (RunStatus::Error, Some("Traceback\nValueError: x".to_owned()))
        } else {
            (RunStatus::Ok, None)
        };
        RunRecord {
            status,
            exit_code: Some(i32::from(fails)),
            signal: None,
            limit: caller.cancel.is_cancelled().then(|| "cancelled".to_owned()),
            stdout: format!("{} {}\n", program.language, program.code),
            stderr: error.clone().unwrap_or_default(),
            stdout_truncated: false,
            stderr_truncated: false,
            result: None,
            error,
            duration_ms: 3,
            cpu_ms: 2,
            max_rss_kb: 1_000,
            level: program.level,
            engine: program.language,
            engine_version: "0".into(),
        }
    }
    fn run_with_host(
        &self,
        program: &Program,
        _: Arc<dyn nanoclaw_sandbox::HostCalls>,
        caller: RunCaller<'_>,
    ) -> RunRecord {
        self.run(program, caller)
    }
    fn default_level(&self) -> Level {
        Level::Standard
    }
    fn levels(&self) -> Vec<Level> {
        self.0.to_vec()
    }
    fn timeout(&self, _: Level) -> Duration {
        Duration::from_secs(60)
    }
}

/// Services without data.
pub(in crate::tools) struct EmptyServices;

impl crate::ports::WorkspaceFiles for EmptyServices {
    fn folder(
        &self,
        _: crate::ports::WorkspaceOwner,
    ) -> Result<Option<Box<dyn crate::ports::WorkspaceFolder>>, crate::ports::FileError> {
        Ok(None)
    }
    fn directory(
        &self,
        _: crate::ports::WorkspaceOwner,
    ) -> Result<Option<crate::ports::RunDirectory>, crate::ports::FileError> {
        Ok(None)
    }
}

impl crate::ports::JobServices for EmptyServices {
    fn spawn(
        &self,
        _: &crate::ports::ToolCaller,
        _: crate::ports::BackgroundTask,
    ) -> Result<crate::domain::job::Job, crate::ports::JobServiceError> {
        Err(crate::ports::JobServiceError::NoCaller)
    }
    fn spawned(
        &self,
        _: &crate::ports::ToolCaller,
    ) -> Result<Vec<crate::domain::job::Job>, crate::ports::JobServiceError> {
        Ok(Vec::new())
    }
    fn cancel(
        &self,
        _: &crate::ports::ToolCaller,
        _: JobId,
    ) -> Result<Option<crate::domain::job::Job>, crate::ports::JobServiceError> {
        Ok(None)
    }
    fn schedule(
        &self,
        _: &crate::ports::ToolCaller,
        _: crate::ports::NewSchedule,
    ) -> Result<crate::domain::schedule::Schedule, crate::ports::JobServiceError> {
        Err(crate::ports::JobServiceError::NoCaller)
    }
    fn schedules(
        &self,
        _: &crate::ports::ToolCaller,
        _: usize,
    ) -> Result<(Vec<crate::ports::ScheduleStatus>, bool), crate::ports::JobServiceError> {
        Ok((Vec::new(), false))
    }
    fn unschedule(
        &self,
        _: &crate::ports::ToolCaller,
        _: crate::domain::id::ScheduleId,
    ) -> Result<bool, crate::ports::JobServiceError> {
        Ok(false)
    }
}

impl crate::ports::Model for EmptyServices {
    fn ask(
        &self,
        request: &crate::ports::ModelRequest,
        _: &CancelToken,
        _: crate::ports::ChunkSink<'_>,
    ) -> Result<crate::ports::Completion, crate::ports::ModelError> {
        Err(crate::ports::ModelError::NotFound(request.model.clone()))
    }
    fn models(&self) -> Vec<crate::ports::ModelInfo> {
        Vec::new()
    }
}

impl crate::ports::Web for EmptyServices {
    fn send(
        &self,
        _: &crate::ports::WebRequest,
        _: &CancelToken,
    ) -> Result<crate::ports::WebResponse, crate::ports::WebError> {
        Err(crate::ports::WebError::Unreachable("no web in tests".into()))
    }
}

impl crate::ports::Results for EmptyServices {
    fn result(&self, _: UserId, _: &ResultHandle) -> Result<Option<String>, crate::ports::StoreError> {
        Ok(None)
    }
}

/// Records the reports.
#[derive(Default)]
pub(in crate::tools) struct RecordingJournal {
    pub(in crate::tools) started: Mutex<Vec<String>>,
    pub(in crate::tools) finished: Mutex<Vec<(String, Value, bool)>>,
    pub(in crate::tools) wholes: Mutex<Vec<crate::ports::FullResult>>,
    pub(in crate::tools) refuses: bool,
    pub(in crate::tools) forgets: bool,
}

impl Journal for RecordingJournal {
    fn started(&self, call: &ToolCall) -> ControlFlow<()> {
        self.started.lock().expect("unpoisoned").push(call.id_ref.clone());
        if self.refuses { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
    fn finished(&self, call: &ToolCall, outcome: crate::ports::ToolOutcome) {
        self.wholes.lock().expect("unpoisoned").extend(outcome.full_result);
        let content = serde_json::from_str(&outcome.content).expect("valid JSON");
        self.finished.lock().expect("unpoisoned").push((call.id_ref.clone(), content, outcome.skipped));
    }
    fn keeps_full_result(&self) -> bool {
        !self.forgets
    }
}

impl RecordingJournal {
    pub(in crate::tools) fn result(&self, id: &str) -> Value {
        let finished = self.finished.lock().expect("unpoisoned");
        let mut found = finished.iter().filter(|(known, ..)| known == id);
        let (_, content, _) = found.next().unwrap_or_else(|| panic!("{id} was not reported"));
        assert!(found.next().is_none(), "{id} was reported twice");
        content.clone()
    }

    pub(in crate::tools) fn skipped(&self, id: &str) -> bool {
        self.finished.lock().expect("unpoisoned").iter().any(|(known, _, skipped)| known == id && *skipped)
    }
}

pub(in crate::tools) type Act = Arc<dyn Fn(&ToolContext) -> Result<Value, ToolError> + Send + Sync>;

/// Runs a function of the test.
pub(in crate::tools) struct ScriptedTool {
    pub(in crate::tools) name: &'static str,
    pub(in crate::tools) aliases: Aliases,
    pub(in crate::tools) idempotent: bool,
    pub(in crate::tools) act: Act,
}

impl Tool for ScriptedTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.name.into(),
            description: "".into(),
            parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
        }
    }
    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: self.idempotent, ..ToolTraits::PURE }
    }
    fn reads_results(&self) -> bool {
        self.name == "look"
    }
    fn aliases(&self) -> Aliases {
        self.aliases
    }
    fn own_timeout(&self, arguments: &Map<String, Value>) -> Duration {
        Duration::from_secs(arguments.get("n").and_then(Value::as_u64).unwrap_or_default())
    }
    fn call(&self, _: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        (self.act)(context)
    }
}

pub(in crate::tools) fn any(
    name: &'static str,
    idempotent: bool,
    act: impl Fn(&ToolContext) -> Result<Value, ToolError> + Send + Sync + 'static,
) -> Box<dyn Tool> {
    Box::new(ScriptedTool { name, aliases: Aliases::default(), idempotent, act: Arc::new(act) })
}

pub(in crate::tools) fn bounds() -> BatchLimits {
    BatchLimits {
        workers: 4,
        timeout: Duration::from_secs(60),
        result_chars: 16_000,
        result_bytes: 1 << 20,
        cache: ToolCacheOptions { ttl_s: 1_000, entries: 100, bytes: 1 << 20, shares_files: false },
    }
}

pub(in crate::tools) fn real() -> Executor {
    real_at(&Level::FOR_CODE)
}

/// The real tools, where the operator allows these levels.
pub(in crate::tools) fn real_at(levels: &'static [Level]) -> Executor {
    let deps = ToolDeps { code: Arc::new(FakeRunner(levels)), ..deps() };
    Executor::new(registered(&deps), Vec::new(), ExecutorOptions::new(bounds())).expect("valid tools")
}

/// Dependencies without services.
pub(in crate::tools) fn deps() -> ToolDeps {
    let bash = BashRules::new(&BashOptions::default(), |_| None).expect("good rules");
    let agents = AgentServices {
        jobs: Arc::new(EmptyServices),
        model: Arc::new(EmptyServices),
        toolbox: Arc::default(),
        clock: Arc::new(TickingClock::default()),
    };
    ToolDeps {
        code: Arc::new(FakeRunner(&Level::FOR_CODE)),
        results: Arc::new(EmptyServices),
        files: Arc::new(EmptyServices),
        web: Arc::new(EmptyServices),
        agents,
        memories: None,
        skills: None,
        options: Arc::new(ToolOptions {
            bash,
            sub_agent: crate::tools::SubAgentOptions::default(),
            channels: crate::tools::MessageChannels::default(),
            limits: Limits::default(),
            web_timeout_s: 30,
            web_search: crate::tools::WebSearchOptions::default(),
            weather: crate::tools::WeatherOptions::default(),
        }),
    }
}

pub(in crate::tools) fn context(allowed: ToolChoice) -> ToolContext {
    ToolContext {
        user: UserId::SINGLE,
        job: JobId::from_bits(1),
        conversation_id: None,
        project_id: None,
        rights: JobRights::new(allowed, 15, 3_600),
        seen_files: crate::ports::SeenFiles::default(),
        terms: ModelParameters::default(),
        origin: JobOrigin::Client,
        is_trial: false,
        id_ref: String::new(),
        approved: crate::ports::ApprovedCalls::All,
        cancel: CancelToken::new(Arc::new(TickingClock::default())).with_deadline(1 << 40),
    }
}

/// A job of this sandbox level.
pub(in crate::tools) fn context_at(strictness: Option<Strictness>, allowed: ToolChoice) -> ToolContext {
    let job = context(allowed);
    ToolContext { rights: JobRights { strictness, ..job.rights }, ..job }
}

pub(in crate::tools) fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id_ref: id.into(), name: name.into(), arguments: arguments.into() }
}

pub(in crate::tools) fn run(executor: &Executor, calls: &[ToolCall]) -> RecordingJournal {
    let log = RecordingJournal::default();
    executor.run(calls, &context(ToolChoice::All(true)), &log);
    log
}

pub(in crate::tools) fn one(name: &str, arguments: &str) -> Value {
    one_result(&real(), name, arguments)
}

/// The result of one call.
pub(in crate::tools) fn one_result(executor: &Executor, name: &str, arguments: &str) -> Value {
    run(executor, &[call("a", name, arguments)]).result("a")
}
