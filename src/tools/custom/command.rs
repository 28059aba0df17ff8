//! Commands as tools: arguments as JSON on standard input, the result on standard output, at the sandbox's
//! shell level. The deny rules of `bash` do not apply: the operator wrote the command.

use super::options::CommandToolOptions;
use crate::domain::secret::Redactor;
use crate::domain::tool::{FileAccess, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, ToolSource, WorkspaceFiles};
use crate::tools::code::{self, CodeRunner};
use nanoclaw_sandbox::{Language, Level, Program, RunRecord, RunStatus};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The commands of `tools:`. They do not change while the server runs.
pub struct CommandTools(Vec<Arc<dyn Tool>>);

impl CommandTools {
    /// `options` must have been checked.
    pub fn new(
        options: &[CommandToolOptions],
        runner: &Arc<dyn CodeRunner>,
        files: &Arc<dyn WorkspaceFiles>,
    ) -> Self {
        let tool = |options: &CommandToolOptions| {
            let (runner, files) = (Arc::clone(runner), Arc::clone(files));
            let tool: Arc<dyn Tool> = Arc::new(CommandTool { options: options.clone(), runner, files });
            tool
        };
        Self(options.iter().map(tool).collect())
    }
}

impl ToolSource for CommandTools {
    fn version(&self) -> u64 {
        0
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.0.clone()
    }
}

struct CommandTool {
    options: CommandToolOptions,
    runner: Arc<dyn CodeRunner>,
    files: Arc<dyn WorkspaceFiles>,
}

impl Tool for CommandTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.options.name.clone().into(),
            description: self.options.description.clone().into(),
            parameters: self.options.parameters.clone(),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits {
            idempotent: self.options.idempotent,
            cacheable: self.options.cacheable,
            files: if self.options.in_project { FileAccess::Runs } else { FileAccess::None },
        }
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::Command
    }

    fn level(&self) -> Option<&'static str> {
        Some(Level::Shell.name())
    }

    fn own_timeout(&self, _: &Map<String, Value>) -> Duration {
        Duration::from_secs(self.options.timeout_s)
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let redactor = Redactor::new(self.options.secrets());
        let environment =
            self.options.env.iter().map(|(name, value)| (name.clone(), value.reveal().to_owned()));
        // By default a command works apart from the files of models, which could subvert it.
        let directory =
            if self.options.in_project { code::directory(self.files.as_ref(), context)? } else { None };
        code::check_room(directory.as_ref())?;
        let (workdir, workdir_limit) = code::workdir(directory);
        let program = Program {
            timeout_ms: Some(self.options.timeout_s.saturating_mul(1_000)),
            workdir,
            workdir_limit,
            environment: environment.collect(),
            stdin: Some(Value::Object(arguments.clone()).to_string().into_bytes()),
            ..Program::new(Language::Bash, Level::Shell, self.options.command.as_str())
        };
        let record = self.runner.run(&program, context.into());
        match record.status {
            // The output may contain the secrets of the environment.
            RunStatus::Ok => Ok(redactor.redact_value(output(&record))),
            _ => Err(failure(&record, context).redacted(&redactor)),
        }
    }
}

/// The standard output as JSON, or as a text if it is not JSON.
fn output(record: &RunRecord) -> Value {
    let text = record.stdout.trim_end_matches('\n');
    if record.stdout_truncated {
        return json!({"output": text, "stdout_truncated": true});
    }
    serde_json::from_str(text).unwrap_or_else(|_| json!({"output": text}))
}

fn failure(record: &RunRecord, context: &ToolContext) -> ToolError {
    let text = [record.stderr.trim(), record.stdout.trim()].into_iter().find(|text| !text.is_empty());
    let message = match (record.status, record.exit_code, &record.limit) {
        (RunStatus::Error, Some(code), None) => {
            text.map_or_else(|| format!("Exit code {code}"), |text| format!("Exit code {code}: {text}"))
        }
        _ => code::failure_message(record, context),
    };
    let data = json!({"output": record.stdout, "exit_code": record.exit_code});
    ToolError::Failed { message, data }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::secret::Secret;
    use crate::domain::tool::ToolChoice;
    use crate::tools::testing::{context, deps};

    /// The fake runner prints the command, and fails if the command contains `raise`.
    fn call_result(command: &str) -> Result<Value, ToolError> {
        let key = Secret::from("sk-12345".to_owned());
        let options = CommandToolOptions {
            command: command.to_owned(),
            env: [("KEY".to_owned(), key)].into(),
            ..CommandToolOptions::default()
        };
        let tool = CommandTool { options, runner: deps().code, files: deps().files };
        tool.call(&Map::new(), &context(ToolChoice::All(true)))
    }

    #[test]
    fn p9_results_of_a_command_tool_hide_its_secrets() {
        assert_eq!(call_result("echo sk-12345"), Ok(json!({"output": "bash echo ***"})));
        let Err(ToolError::Failed { data, .. }) = call_result("raise sk-12345") else { panic!("it fails") };
        assert_eq!(data, json!({"output": "bash raise ***\n", "exit_code": 1}));
    }
}
