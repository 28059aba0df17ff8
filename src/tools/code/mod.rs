//! Shared by the tools that run code: the sandbox behind a trait, the choice of the level, and the form of
//! the result.

mod measured;
mod user_slots;

pub use measured::MeasuredCode;
pub use user_slots::SharedCode;

use crate::domain::id::UserId;
use crate::domain::tool::Strictness;
use crate::ports::{
    CancelToken, FileError, RunDirectory, ToolContext, ToolError, ToolScope, WorkspaceFiles, WorkspaceOwner,
};
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunRecord, RunStatus, Sandbox, WorkdirLimit};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Who runs a program, and what ends it early.
#[derive(Debug, Clone, Copy)]
pub struct RunCaller<'a> {
    /// The user of the job; `None`: the server itself.
    pub user: Option<UserId>,
    /// Ends the program, also while it waits for a slot.
    pub cancel: &'a CancelToken,
}

impl<'a> From<&'a ToolContext> for RunCaller<'a> {
    fn from(context: &'a ToolContext) -> Self {
        Self { user: Some(context.user), cancel: &context.cancel }
    }
}

/// Runs programs: the sandbox, or a fake of it in tests.
pub trait CodeRunner: Send + Sync {
    /// Runs a program to its end, or until cancellation.
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord;
    /// Runs a JavaScript program that may call its host.
    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, caller: RunCaller<'_>) -> RunRecord;
    /// The default level.
    fn default_level(&self) -> Level;
    /// The allowed levels, strictest first.
    fn levels(&self) -> Vec<Level> {
        Level::FOR_CODE.to_vec()
    }
    /// The default time limit of a run at this level.
    fn timeout(&self, level: Level) -> Duration;
    /// Why programs of this language cannot run at this level, as far as that is known without a test.
    fn known_fault(&self, _language: Language, _level: Level) -> Option<String> {
        None
    }
}

impl CodeRunner for Sandbox {
    fn run(&self, program: &Program, caller: RunCaller<'_>) -> RunRecord {
        Self::run(self, program, &|| caller.cancel.is_cancelled())
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, caller: RunCaller<'_>) -> RunRecord {
        Self::run_with_host(self, program, host, &|| caller.cancel.is_cancelled())
    }

    fn default_level(&self) -> Level {
        self.options().default_strictness
    }

    fn levels(&self) -> Vec<Level> {
        self.options().levels_allowed()
    }

    fn timeout(&self, level: Level) -> Duration {
        Duration::from_millis(self.options().levels.of(level).timeout_ms)
    }

    fn known_fault(&self, language: Language, level: Level) -> Option<String> {
        self.known_fault(language, level)
    }
}

/// The arguments of a tool that runs code.
#[derive(Deserialize)]
pub(super) struct CodeArguments {
    code: String,
    strictness: Option<Level>,
}

/// The schemas of [`CodeArguments`] with these levels. One level leaves nothing to choose.
pub(super) fn properties(levels: &[Level]) -> Value {
    let mut properties = json!({"code": {"type": "string"}});
    if let (Some(properties), [_, _, ..]) = (properties.as_object_mut(), levels) {
        let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
        let strictness = json!({"type": "string", "enum": names, "description": "Default: the job's"});
        properties.insert("strictness".to_owned(), strictness);
    }
    properties
}

/// The levels that calls of a job may use.
pub(super) fn levels_in(runner: &dyn CodeRunner, scope: &ToolScope<'_>) -> Vec<Level> {
    let most = scope.strictness.map_or(Level::Lenient, sandbox_level);
    let mut levels = runner.levels();
    levels.retain(|level| *level <= most);
    levels
}

/// The level of a call that names none: the job's, else the server's, within what the server allows.
pub(super) fn default_level(runner: &dyn CodeRunner, scope: &ToolScope<'_>) -> Level {
    let most = levels_in(runner, scope).last().copied().unwrap_or(Level::Strict);
    scope.strictness.map_or_else(|| runner.default_level(), sandbox_level).min(most)
}

/// The level of a call: its own, else the default. The job and the server set the ceiling.
fn level_of(
    runner: &dyn CodeRunner,
    requested: Option<Level>,
    context: &ToolContext,
) -> Result<Level, ToolError> {
    let levels = levels_in(runner, &context.scope());
    let most = levels.last().copied().unwrap_or(Level::Strict);
    let Some(level) = requested.filter(|level| Level::FOR_CODE.contains(level)) else {
        return Ok(default_level(runner, &context.scope()));
    };
    if levels.contains(&level) {
        return Ok(level);
    }
    let allowed = levels.iter().map(|level| level.name()).collect::<Vec<_>>().join(" or ");
    let decides = match context.rights.strictness {
        Some(strictness) if sandbox_level(strictness) == most => {
            format!("the strictness of this job is '{most}', and only the user who submits the job sets it")
        }
        _ => format!(
            "the operator of this server allows '{most}' at most (code_execution.max_strictness_allowed)"
        ),
    };
    Err(ToolError::Invalid(format!(
        "strictness '{level}' is refused: {decides}. Nothing was run. Leave strictness out, or use {allowed}"
    )))
}

/// The level at which a call would run.
pub(super) fn level(runner: &dyn CodeRunner, arguments: &Map<String, Value>, context: &ToolContext) -> Level {
    let requested = arguments.get("strictness").and_then(|level| Level::deserialize(level).ok());
    level_of(runner, requested, context).unwrap_or_else(|_| default_level(runner, &context.scope()))
}

/// Whether programs of this level use the job's files.
pub(super) fn has_files(language: Language, level: Level) -> bool {
    language == Language::Python && level == Level::Lenient
}

/// The directory of the job's project, or the job's own; `None` for a call without a job.
pub(super) fn directory(
    files: &dyn WorkspaceFiles,
    context: &ToolContext,
) -> Result<Option<RunDirectory>, ToolError> {
    files.directory(WorkspaceOwner::from(context)).map_err(|error| {
        if let FileError::Io(reason) = &error {
            tracing::warn!(job = %context.job, reason, "job directory failed");
        }
        ToolError::failed(format!("The job's directory cannot be used: {error}"))
    })
}

/// Fails if the directory is too full for another program.
pub(super) fn check_room(directory: Option<&RunDirectory>) -> Result<(), ToolError> {
    let limit = directory.and_then(|directory| directory.limit.as_ref());
    limit.and_then(|limit| limit.refusal()).map_or(Ok(()), |reason| Err(ToolError::failed(reason)))
}

/// The directory of a program, and its limit.
pub(super) fn workdir(directory: Option<RunDirectory>) -> (Option<PathBuf>, Option<WorkdirLimit>) {
    let Some(RunDirectory { path, limit }) = directory else { return (None, None) };
    let limit = limit.map(|limit| {
        let (max_bytes, max_entries) = (limit.max_bytes(), limit.max_entries());
        WorkdirLimit::new(max_bytes, max_entries, move |bytes, entries| limit.check(bytes, entries).err())
    });
    (Some(path), limit)
}

/// Runs the code at its level.
pub(super) fn run(
    (runner, files): (&dyn CodeRunner, &dyn WorkspaceFiles),
    language: Language,
    arguments: &CodeArguments,
    context: &ToolContext,
) -> Result<Value, ToolError> {
    let level = level_of(runner, arguments.strictness, context)?;
    let directory = if has_files(language, level) { directory(files, context)? } else { None };
    check_room(directory.as_ref())?;
    let (workdir, workdir_limit) = workdir(directory);
    let max_level = levels_in(runner, &context.scope()).last().copied();
    let program = Program {
        workdir,
        workdir_limit,
        max_level,
        ..Program::new(language, level, arguments.code.as_str())
    };
    let record = runner.run(&program, context.into());
    let data = Value::Object(data(&record, error_text(&record)));
    if record.status == RunStatus::Ok {
        return Ok(data);
    }
    Err(ToolError::Failed { message: failure_message(&record, context), data })
}

fn sandbox_level(strictness: Strictness) -> Level {
    match strictness {
        Strictness::Strict => Level::Strict,
        Strictness::Standard => Level::Standard,
        Strictness::Lenient => Level::Lenient,
    }
}

/// The message of a run that failed.
pub(super) fn failure_message(record: &RunRecord, context: &ToolContext) -> String {
    // The job was not cancelled: the call's own time was up, perhaps while it waited for a slot.
    let is_call_timeout = record.status == RunStatus::Timeout && record.limit.as_deref() == Some("cancelled");
    if is_call_timeout && context.cancel.reason().is_none() {
        return "the time for one tool call (limits.tool_timeout_s) is over".to_owned();
    }
    let text = [error_text(record), record.stderr.as_str()].into_iter().find(|text| !text.trim().is_empty());
    text.map_or_else(|| format!("Execution failed: {}", record.status), str::to_owned)
}

fn error_text(record: &RunRecord) -> &str {
    record.error.as_deref().unwrap_or_default()
}

/// The fields of the record that are set, `output` and `status` first. Each costs the model tokens, so
/// standard error is left out if `message` contains it.
pub(super) fn data(record: &RunRecord, message: &str) -> Map<String, Value> {
    let truncated = |is_truncated: bool| is_truncated.then_some(Value::Bool(true));
    let stderr = Some(&record.stderr).filter(|text| !text.is_empty() && !message.contains(text.trim_end()));
    let fields = [
        ("output", Some(json!(record.stdout))),
        ("status", Some(json!(record.status.name()))),
        ("strictness", Some(json!(record.level.name()))),
        ("duration_ms", Some(json!(record.duration_ms))),
        ("result", record.result.as_ref().map(|result| json!(result))),
        ("stderr", stderr.map(|text| json!(text))),
        ("exit_code", record.exit_code.filter(|code| *code != 0).map(|code| json!(code))),
        ("signal", record.signal.map(|signal| json!(signal))),
        ("limit", record.limit.as_ref().map(|limit| json!(limit))),
        ("stdout_truncated", truncated(record.stdout_truncated)),
        ("stderr_truncated", truncated(record.stderr_truncated)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
