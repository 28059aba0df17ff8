//! A tool that a JavaScript file defines.

use super::description::ToolDescription;
use super::handler_run::HandlerRun;
use super::host::ToolHost;
use super::permission::FilePermission;
use super::program::ToolScript;
use crate::domain::tool::{FileAccess, ToolOrigin, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError, Web, WorkspaceFiles, WorkspaceOwner};
use crate::tools::code::{self, CodeRunner};
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunStatus};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The services that a tool file needs.
#[derive(Clone)]
pub(super) struct JavaScriptDeps {
    /// Runs the file.
    pub(super) code: Arc<dyn CodeRunner>,
    /// For `permissions.fetch`.
    pub(super) web: Arc<dyn Web>,
    /// For `permissions.files`.
    pub(super) files: Arc<dyn WorkspaceFiles>,
}

pub(super) struct JavaScriptTool {
    pub(super) file: String,
    pub(super) source: ToolScript,
    pub(super) description: ToolDescription,
    pub(super) deps: JavaScriptDeps,
}

impl Tool for JavaScriptTool {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: self.description.name.clone().into(),
            description: self.description.description.clone().into(),
            parameters: self.description.parameters.clone(),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits {
            idempotent: self.description.idempotent,
            cacheable: self.description.cacheable,
            files: match self.description.permissions.files {
                FilePermission::None => FileAccess::None,
                FilePermission::Read => FileAccess::Reads,
                FilePermission::Write => FileAccess::Writes,
            },
        }
    }

    fn origin(&self) -> ToolOrigin {
        ToolOrigin::JavaScript { file: self.file.clone() }
    }

    fn level(&self) -> Option<&'static str> {
        Some(Level::Standard.name())
    }

    fn own_timeout(&self, _: &Map<String, Value>) -> Duration {
        Duration::from_secs(self.description.timeout_s)
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let run = HandlerRun {
            arguments: Value::Object(arguments.clone()).to_string(),
            web: Arc::clone(&self.deps.web),
            cancel: context.cancel.clone(),
            files: Arc::clone(&self.deps.files),
            owner: WorkspaceOwner::from(context),
        };
        let host = Arc::new(ToolHost::new(run, self.description.permissions.clone()));
        let program = Program {
            timeout_ms: Some(self.description.timeout_s.saturating_mul(1_000)),
            ..Program::new(Language::JavaScript, Level::Standard, self.source.call_program())
        };
        let calls: Arc<dyn HostCalls> = Arc::<ToolHost>::clone(&host);
        let record = self.deps.code.run_with_host(&program, calls, context.into());
        if record.status != RunStatus::Ok {
            let data = if record.stdout.is_empty() { Value::Null } else { json!({"output": record.stdout}) };
            return Err(ToolError::Failed { message: code::failure_message(&record, context), data });
        }
        host.take_result().ok_or_else(|| ToolError::Failed {
            message: "the handler ended without a result: a promise of its own never settled".to_owned(),
            data: Value::Null,
        })
    }
}
