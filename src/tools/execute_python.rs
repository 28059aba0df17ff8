//! `execute_python`: runs a Python program in the sandbox. Owns what the model is told of it.

use super::code::{self, CodeRunner};
use super::registry::ToolDeps;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
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
            name: "execute_python",
            description: "Run a Python program in a sandbox and get what it prints, with a traceback if it fails. \
                          Print what you want to see; nothing is kept between two calls; there is no network.",
            parameters: code::parameters(self.runner.as_ref(), "The Python program"),
        }
    }

    fn traits(&self) -> ToolTraits {
        // A program cannot touch anything but a private directory that is gone afterwards. Jobs with a project directory
        // (`ToolContext::workdir`) will end that: who first sets one has to answer for this line (P3).
        ToolTraits { idempotent: true }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        code::run(self.runner.as_ref(), Language::Python, arguments, context)
    }
}
