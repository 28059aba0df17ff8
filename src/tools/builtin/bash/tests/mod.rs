//! The tool over a fake sandbox: what reaches the sandbox, and what models get back.

mod guard;
mod harmless;
mod lines;
mod patterns;

use super::*;
use crate::domain::id::{JobId, UserId};
use crate::domain::job_rights::JobRights;
use crate::domain::tool::ToolChoice;
use crate::ports::{
    CancelReason, CancelToken, Clock, FileError, RunDirectory, WorkspaceFolder, WorkspaceOwner,
};
use crate::tools::code::RunCaller;
use std::sync::Mutex;

struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }
    fn monotonic_ms(&self) -> u64 {
        0
    }
    fn sleep(&self, _: &CancelToken, _: Duration) {}
}

/// Notes what it is to run and answers with a record made before.
struct RecordingRunner {
    record: RunRecord,
    seen: Mutex<Vec<Program>>,
}

impl CodeRunner for RecordingRunner {
    fn run(&self, program: &Program, _: RunCaller<'_>) -> RunRecord {
        self.seen.lock().expect("unpoisoned").push(program.clone());
        self.record.clone()
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
    fn timeout(&self, level: Level) -> Duration {
        assert_eq!(level, Level::Shell);
        Duration::from_secs(33)
    }
}

fn record(status: RunStatus, exit_code: Option<i32>) -> RunRecord {
    RunRecord {
        status,
        exit_code,
        signal: None,
        limit: None,
        stdout: "out\n".into(),
        stderr: String::new(),
        stdout_truncated: false,
        stderr_truncated: false,
        result: None,
        error: None,
        duration_ms: 3,
        cpu_ms: 2,
        max_rss_kb: 1_000,
        level: Level::Shell,
        engine: Language::Bash,
        engine_version: "5".into(),
    }
}

/// Every job has the directory `/srv/p`.
struct OneDirectory;

impl WorkspaceFiles for OneDirectory {
    fn folder(&self, _: WorkspaceOwner) -> Result<Option<Box<dyn WorkspaceFolder>>, FileError> {
        Ok(None)
    }
    fn directory(&self, _: WorkspaceOwner) -> Result<Option<RunDirectory>, FileError> {
        Ok(Some(RunDirectory { path: PathBuf::from("/srv/p"), limit: None }))
    }
}

fn context() -> ToolContext {
    ToolContext {
        user: UserId::SINGLE,
        job: JobId::from_bits(1),
        conversation_id: None,
        project_id: None,
        rights: JobRights::new(ToolChoice::All(true), 15, 3_600),
        seen_files: crate::ports::SeenFiles::default(),
        terms: crate::ports::ModelParameters::default(),
        origin: crate::domain::job::JobOrigin::Client,
        is_trial: false,
        id_ref: String::new(),
        approved: crate::ports::ApprovedCalls::All,
        cancel: CancelToken::new(Arc::new(Still)).with_deadline(1 << 40),
    }
}

fn bash(record: RunRecord) -> (Bash, Arc<RecordingRunner>) {
    let runner = Arc::new(RecordingRunner { record, seen: Mutex::default() });
    let options = BashOptions { allowed_env: vec!["SET".into(), "UNSET".into()], ..BashOptions::default() };
    let environment = |name: &str| (name == "SET").then(|| "value".to_owned());
    let rules = BashRules::new(&options, environment).expect("good rules");
    let files = Arc::new(OneDirectory);
    (Bash { runner: Arc::<RecordingRunner>::clone(&runner), files, rules }, runner)
}

fn map(arguments: Value) -> Map<String, Value> {
    let Value::Object(map) = arguments else { panic!("an object") };
    map
}

/// The program that the sandbox receives.
fn program(arguments: Value) -> Result<Program, ToolError> {
    let (tool, runner) = bash(record(RunStatus::Ok, Some(0)));
    let result = tool.call(&map(arguments), &context());
    let seen = std::mem::take(&mut *runner.seen.lock().expect("unpoisoned"));
    assert_eq!(result.is_ok(), seen.len() == 1, "what is refused is not run");
    result.map(|_| seen.into_iter().next().expect("one program"))
}

fn failed(record: RunRecord) -> (String, Value) {
    let (tool, _) = bash(record);
    match tool.call(&map(json!({"command": "false"})), &context()) {
        Err(ToolError::Failed { message, data }) => (message, data),
        other => panic!("it failed: {other:?}"),
    }
}

#[test]
fn the_sandbox_gets_the_command_directory_timeout_and_environment() {
    let given = program(json!({"command": "ls -l", "working_dir": "./a//b/", "timeout": 7})).expect("runs");
    assert_eq!((given.language, given.level, given.code.as_str()), (Language::Bash, Level::Shell, "ls -l"));
    assert_eq!(given.timeout_ms, Some(7_000));
    assert_eq!((given.workdir, given.subdirectory), (Some("/srv/p".into()), Some("a/b".into())));
    assert_eq!(given.environment, [("SET".to_owned(), "value".to_owned())]);
    let simple = program(json!({"command": "ls"})).expect("runs");
    assert_eq!((simple.timeout_ms, simple.subdirectory), (None, None));
    for here in ["", ".", "./", " "] {
        let given = program(json!({"command": "ls", "working_dir": here})).expect("runs");
        assert_eq!(given.subdirectory, None, "{here:?}");
    }
}

#[test]
fn a_working_dir_inside_the_jobs_directory_may_be_absolute_and_have_dots() {
    for (inside, below) in [
        ("/srv/p", None),
        ("/srv/p/", None),
        ("a/..", None),
        ("../p", None),
        ("a/../b", Some("b")),
        ("/srv/p/a/b", Some("a/b")),
        ("/srv/x/../p/a", Some("a")),
    ] {
        let given = program(json!({"command": "ls", "working_dir": inside})).expect("runs");
        assert_eq!(given.subdirectory, below.map(PathBuf::from), "{inside}");
    }
}

#[test]
fn a_working_dir_outside_the_jobs_directory_is_refused_with_its_name() {
    for bad in ["/", "/srv", "/srv/pp", "..", "a/../..", "../q", "/srv/p/../q", "a\0b"] {
        let reported = program(json!({"command": "ls", "working_dir": bad})).expect_err(bad).to_string();
        assert!(reported.contains("is outside of the job's directory '/srv/p'"), "{reported}");
    }
    let fine = program(json!({"command": "rm -rf ../x", "working_dir": "a"}));
    assert!(fine.is_ok(), "the guard knows where the command starts");
}

#[test]
fn a_command_that_the_guard_refuses_is_not_run() {
    for command in ["sudo ls", "ls && rm -rf /", "", " \n"] {
        assert!(matches!(program(json!({"command": command})), Err(ToolError::Invalid(_))), "{command}");
    }
}

#[test]
fn the_exit_code_is_always_reported() {
    let (tool, _) = bash(record(RunStatus::Ok, Some(0)));
    let data = tool.call(&map(json!({"command": "true"})), &context()).expect("it ran well");
    assert_eq!(data, json!({"output": "out\n", "status": "ok", "duration_ms": 3, "exit_code": 0}));
    let stderr = "no such file\n".to_owned();
    let (message, data) = failed(RunRecord {
        stderr: stderr.clone(),
        error: Some(stderr),
        ..record(RunStatus::Error, Some(2))
    });
    assert_eq!(message, "Exit code 2");
    assert_eq!(
        data,
        json!({"output": "out\n", "status": "error", "duration_ms": 3, "stderr": "no such file\n", "exit_code": 2})
    );
    let killed = RunRecord {
        signal: Some(9),
        limit: Some("timeout_ms".into()),
        error: Some("too long".into()),
        ..record(RunStatus::Timeout, None)
    };
    let (message, data) = failed(killed);
    assert_eq!(
        (message.as_str(), &data["exit_code"], &data["signal"]),
        ("too long", &Value::Null, &json!(9))
    );
    assert!(data.as_object().expect("an object").contains_key("exit_code"));
}

#[test]
fn a_call_over_its_timeout_names_the_limit_and_a_cancelled_one_does_not() {
    let late = || RunRecord {
        limit: Some("cancelled".into()),
        error: Some("cancelled".into()),
        ..record(RunStatus::Timeout, None)
    };
    assert!(failed(late()).0.contains("limits.tool_timeout_s"));
    let (tool, _) = bash(late());
    let context = context();
    context.cancel.cancel(CancelReason::Cancelled);
    let reported = tool.call(&map(json!({"command": "ls"})), &context).expect_err("cancelled").to_string();
    assert_eq!(reported, "cancelled");
}

#[test]
fn a_command_gets_the_timeout_that_it_requests() {
    let (tool, _) = bash(record(RunStatus::Ok, Some(0)));
    assert_eq!(tool.own_timeout(&map(json!({"command": "x", "timeout": 600}))), Duration::from_secs(600));
    assert_eq!(tool.own_timeout(&map(json!({"command": "x"}))), Duration::from_secs(33), "the level's own");
    assert!(!tool.traits().idempotent);
}
