//! `execute_python`: runs a Python program in the sandbox.

use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use crate::tools::code::{self, CodeRunner};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::Language;
use serde_json::{Map, Value};
use std::sync::Arc;

struct ExecutePython {
    runner: Arc<dyn CodeRunner>,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(ExecutePython { runner: Arc::clone(&deps.code) })
}

impl Tool for ExecutePython {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "execute_python".into(),
            description:
                "Run a Python program in a sandbox and get what it prints, with a traceback if it fails. \
                          Print what you want to see; nothing is kept between two calls; there is no network."
                    .into(),
            parameters: code::parameters(self.runner.as_ref(), "The Python program"),
        }
    }

    fn traits(&self) -> ToolTraits {
        // A program cannot touch anything but a private directory that is gone afterwards …
        ToolTraits { files: FileAccess::Runs, ..ToolTraits::READ }
    }

    fn traits_in(&self, has_project: bool) -> ToolTraits {
        // … or its project's, where it may have written half of what it wanted (P3).
        ToolTraits { idempotent: !has_project, ..self.traits() }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        code::run(self.runner.as_ref(), Language::Python, arguments, context)
    }
}
