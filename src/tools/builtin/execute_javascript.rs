//! `execute_javascript`: runs a JavaScript program in the sandbox.

use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use crate::tools::code::{self, CodeRunner};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::Language;
use serde_json::{Map, Value};
use std::sync::Arc;

struct ExecuteJavascript {
    runner: Arc<dyn CodeRunner>,
}

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(ExecuteJavascript { runner: Arc::clone(&deps.code) })
}

impl Tool for ExecuteJavascript {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "execute_javascript".into(),
            description: "Run a JavaScript program in a sandbox (QuickJS, no browser, no Node modules) and get what \
                          it prints with console.log, with the error if it fails. Nothing is kept between two calls; there is no network.".into(),
            parameters: code::parameters(self.runner.as_ref(), "The JavaScript program"),
        }
    }

    fn traits(&self) -> ToolTraits {
        // A program cannot touch anything but a private directory that is gone afterwards.
        ToolTraits::READ
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        code::run(self.runner.as_ref(), Language::JavaScript, arguments, context)
    }
}
