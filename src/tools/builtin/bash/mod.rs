//! `bash`: runs a command line in the job's directory, in the sandbox. [`guard`] refuses at once what can
//! only fail; the boundary is the kernel (P5).

mod cleanup;
mod command;
mod deny;
mod guard;
mod options;
mod path;
mod refusal;
mod rules;
mod split;
mod wrapper;

pub use options::{BadBashOption, BashOptions};
pub use rules::BashRules;

use super::builtin_tool::{spec, typed};
use super::names;
use crate::domain::tool::{Aliases, Strictness, ToolGroup, ToolSpec, ToolTraits};
use crate::domain::workspace_path::path_below;
use crate::ports::{McpOffer, Tool, ToolContext, ToolError, ToolScope, Unavailability, WorkspaceFiles};
use crate::tools::code::{self, CodeRunner};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus};
use path::ShellPath;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The longest time that a call may ask for.
const TIMEOUT_MAX_S: u64 = 600;

struct Bash {
    runner: Arc<dyn CodeRunner>,
    files: Arc<dyn WorkspaceFiles>,
    rules: BashRules,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let (runner, files) = (Arc::clone(&deps.code), Arc::clone(&deps.files));
    Box::new(Bash { runner, files, rules: deps.options.bash.clone() })
}

#[derive(Deserialize)]
struct BashArguments {
    command: String,
    working_dir: Option<String>,
    /// Seconds.
    timeout: Option<u64>,
}

impl Tool for Bash {
    fn spec(&self) -> ToolSpec {
        spec(
            "bash",
            "Run a bash command line in the job's directory, where alone it may write. Returns its output and exit code. No input, \
             no network, no change of owners; background processes end with it.",
            json!({
                "command": {"type": "string", "minLength": 1},
                "working_dir": {"type": "string", "description": "Default: the job's directory"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_MAX_S, "description": "Seconds"},
            }),
            &["command"],
        )
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits::default()
    }

    fn level(&self) -> Option<&'static str> {
        Some(Level::Shell.name())
    }

    fn aliases(&self) -> Aliases {
        names::aliases("bash")
    }

    fn group(&self) -> Option<ToolGroup> {
        names::group("bash")
    }

    fn mcp_offer(&self) -> Option<McpOffer> {
        Some(McpOffer {
            name: names::RUN_SHELL,
            title: "Run a shell command",
            description: "Run a bash command line in a sandbox, in the directory of the project, where alone it may write and whose \
                          files stay. Returns its output and exit code. No input, no network; background processes end with it.",
        })
    }

    /// Commands count as lenient for the operator. A job may run them unless it is strict.
    fn unavailability(&self, scope: &ToolScope<'_>) -> Option<Unavailability> {
        let levels = self.runner.levels();
        if !levels.contains(&Level::Lenient) {
            let most = levels.last().map_or("strict", |level| level.name());
            return Some(Unavailability::Always(format!(
                "commands count as lenient, and the operator of this server allows '{most}' at most \
                 (code_execution.max_strictness_allowed)"
            )));
        }
        if scope.strictness == Some(Strictness::Strict) {
            return Some(Unavailability::InJob(
                "this job's strictness is 'strict', which allows no commands; the user sets it with the job"
                    .to_owned(),
            ));
        }
        self.runner.known_fault(Language::Bash, Level::Shell).map(Unavailability::Now)
    }

    fn own_timeout(&self, arguments: &Map<String, Value>) -> Duration {
        let timeout = arguments.get("timeout").and_then(Value::as_u64).map(Duration::from_secs);
        timeout.unwrap_or_else(|| self.runner.timeout(Level::Shell))
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let BashArguments { command, working_dir, timeout } = typed(arguments)?;
        if command.trim().is_empty() {
            return Err(ToolError::Invalid("command is empty: there is nothing to run".to_owned()));
        }
        let directory = code::directory(self.files.as_ref(), context)?;
        let root = directory.as_ref().map(|directory| directory.path.as_path());
        let subdirectory = working_dir.map(|path| subdirectory(root, &path)).transpose()?.flatten();
        let refused = |refusal: refusal::CommandRefusal| ToolError::Invalid(refusal.to_string());
        guard::check_command(&command, &ShellPath::project(subdirectory.as_deref()), &self.rules)
            .map_err(refused)?;
        if !cleanup::only_removes(&command) {
            code::check_room(directory.as_ref())?;
        }
        let (workdir, workdir_limit) = code::workdir(directory);
        let program = Program {
            timeout_ms: timeout.map(|seconds| seconds.saturating_mul(1_000)),
            workdir,
            workdir_limit,
            subdirectory,
            environment: self.rules.environment(),
            ..Program::new(Language::Bash, Level::Shell, command)
        };
        let record = self.runner.run(&program, context.into());
        match record.status {
            RunStatus::Ok => Ok(data(&record, "")),
            _ => Err(failure(&record, context)),
        }
    }
}

/// The working directory below the job's, which is `root` unless the call has no job; `None` for the job's
/// own.
fn subdirectory(root: Option<&Path>, text: &str) -> Result<Option<PathBuf>, ToolError> {
    let path = text.trim();
    // Programs print the path without links.
    let real = || path_below(&root?.canonicalize().ok()?, path);
    let below = path_below(root.unwrap_or(Path::new("/nowhere")), path).or_else(real);
    let Some(below) = below.filter(|_| !text.contains('\0')) else {
        let text = refusal::short(text);
        let directory = root.map_or_else(String::new, |root| format!(" '{}'", root.display()));
        return Err(ToolError::Invalid(format!(
            "working_dir '{text}' is outside of the job's directory{directory}: it must be that directory or \
             one below it"
        )));
    };
    Ok(Some(PathBuf::from(below)).filter(|path| !path.as_os_str().is_empty()))
}

/// The error of a command that failed, with everything that it printed.
fn failure(record: &RunRecord, context: &ToolContext) -> ToolError {
    if let (RunStatus::Error, Some(exit_code), None) = (record.status, record.exit_code, &record.limit) {
        return ToolError::Failed { message: format!("Exit code {exit_code}"), data: data(record, "") };
    }
    let message = code::failure_message(record, context);
    ToolError::Failed { data: data(record, &message), message }
}

/// The fields of any program, always with the exit code, which is null if a signal ended the shell or nothing
/// ran. Commands have one level, so it is left out.
fn data(record: &RunRecord, message: &str) -> Value {
    let mut data = code::data(record, message);
    data.shift_remove("strictness");
    data.insert("exit_code".to_owned(), json!(record.exit_code));
    Value::Object(data)
}

#[cfg(test)]
mod tests;
