//! What the tools that run code share: the sandbox behind a trait, the choice of the level, and the form of
//! the result.

mod measured;

pub use measured::MeasuredCode;

use crate::domain::tool::Strictness;
use crate::ports::{CancelToken, ToolContext, ToolError};
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunRecord, RunStatus, Sandbox};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Runs programs: the sandbox, or a fake of it in tests.
pub trait CodeRunner: Send + Sync {
    /// Runs a program to its end, or until `cancel` says so.
    fn run(&self, program: &Program, cancel: &CancelToken) -> RunRecord;
    /// The same for a JavaScript program that may ask its host.
    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, cancel: &CancelToken) -> RunRecord;
    /// The level of a call that names none, in a job that names none.
    fn default_level(&self) -> Level;
    /// The levels that a call may name, from the tightest on.
    fn levels(&self) -> Vec<Level> {
        Level::FOR_CODE.to_vec()
    }
    /// The wall clock of a run at this level that asks for none of its own.
    fn timeout(&self, level: Level) -> Duration;
}

impl CodeRunner for Sandbox {
    fn run(&self, program: &Program, cancel: &CancelToken) -> RunRecord {
        Self::run(self, program, &|| cancel.is_cancelled())
    }

    fn run_with_host(&self, program: &Program, host: Arc<dyn HostCalls>, cancel: &CancelToken) -> RunRecord {
        Self::run_with_host(self, program, host, &|| cancel.is_cancelled())
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
}

/// The parameters of a tool that runs code.
pub(super) fn parameters(runner: &dyn CodeRunner, code: &str) -> Value {
    let levels = runner.levels();
    let meanings: Vec<&str> = levels.iter().map(|level| meaning(*level)).collect();
    json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": code},
            "strictness": {
                "type": "string",
                "enum": levels.iter().map(|level| level.name()).collect::<Vec<_>>(),
                "description": format!(
                    "How much the program may do. {} Never the network. Leave it out for the job's level.",
                    meanings.join(" ")
                ),
            },
        },
        "required": ["code"],
        "additionalProperties": false,
    })
}

/// What a level is for, for the model.
const fn meaning(level: Level) -> &'static str {
    match level {
        Level::Strict => "strict: pure computation, 5 s.",
        Level::Standard => "standard: the common harmless part of the standard library, no files, 10 s.",
        Level::Lenient => "lenient: the whole standard library and a private directory, 30 s.",
        Level::Shell => "shell: commands.",
    }
}

/// Runs the call's code; the call's level goes before the job's, the job's before the server's.
pub(super) fn run(
    runner: &dyn CodeRunner,
    language: Language,
    arguments: &Map<String, Value>,
    context: &ToolContext,
) -> Result<Value, ToolError> {
    let word = |name: &str| arguments.get(name).and_then(Value::as_str);
    let named =
        word("strictness").and_then(|name| Level::FOR_CODE.into_iter().find(|level| level.name() == name));
    let level = named.or_else(|| context.strictness.map(level_of)).unwrap_or_else(|| runner.default_level());
    // Only these can read and write files; the others run in no directory at all.
    let has_files = language == Language::Python && level == Level::Lenient;
    let program = Program {
        workdir: context.workdir.clone().filter(|_| has_files),
        ..Program::new(language, level, word("code").unwrap_or_default())
    };
    let record = runner.run(&program, &context.cancel);
    if record.status == RunStatus::Ok {
        return Ok(Value::Object(data(&record, told(&record))));
    }
    let message = explained(&record, context);
    Err(ToolError::Failed { data: Value::Object(data(&record, told(&record))), message })
}

fn was_cancelled(record: &RunRecord) -> bool {
    record.limit.as_deref() == Some("cancelled")
}

fn level_of(strictness: Strictness) -> Level {
    match strictness {
        Strictness::Strict => Level::Strict,
        Strictness::Standard => Level::Standard,
        Strictness::Lenient => Level::Lenient,
    }
}

/// Why a run did not end well, in words.
pub(super) fn explained(record: &RunRecord, context: &ToolContext) -> String {
    // Nobody cancelled the job: the call's own time was up, perhaps while it waited for a free place.
    let is_late = record.status == RunStatus::Timeout && was_cancelled(record);
    if is_late && context.cancel.reason().is_none() {
        return "the time for one tool call (limits.tool_timeout_s) is over".to_owned();
    }
    let said = [told(record), record.stderr.as_str()].into_iter().find(|text| !text.trim().is_empty());
    said.map_or_else(|| format!("Execution failed: {}", record.status), str::to_owned)
}

fn told(record: &RunRecord) -> &str {
    record.error.as_deref().unwrap_or_default()
}

/// The record's fields that say something, `output` and `status` first: each of them costs the model tokens,
/// so standard error is left out where it is `told` already.
pub(super) fn data(record: &RunRecord, told: &str) -> Map<String, Value> {
    let mut data = Map::new();
    let mut put = |name: &str, value: Value| {
        data.insert(name.to_owned(), value);
    };
    put("output", json!(record.stdout));
    put("status", json!(record.status.name()));
    put("strictness", json!(record.level.name()));
    put("duration_ms", json!(record.duration_ms));
    let exit_code = record.exit_code.filter(|code| *code != 0);
    let is_told = told.contains(record.stderr.trim_end());
    let stderr = Some(&record.stderr).filter(|text| !text.is_empty() && !is_told);
    let truncated = |cut: bool| cut.then_some(true);
    for (name, value) in [
        ("result", record.result.as_ref().map(|result| json!(result))),
        ("stderr", stderr.map(|text| json!(text))),
        ("exit_code", exit_code.map(|code| json!(code))),
        ("signal", record.signal.map(|signal| json!(signal))),
        ("limit", record.limit.as_ref().map(|limit| json!(limit))),
        ("stdout_truncated", truncated(record.stdout_truncated).map(Value::from)),
        ("stderr_truncated", truncated(record.stderr_truncated).map(Value::from)),
    ] {
        if let Some(value) = value {
            put(name, value);
        }
    }
    data
}
