//! `execute_python`: runs a Python program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::{FileAccess, ToolTraits};
use crate::ports::Tool;
use crate::tools::code;
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::Language;
use std::sync::Arc;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    let spec = spec(
        "execute_python",
        "Run a Python program in a sandbox and get what it prints, with a traceback if it fails. Print what you want to see; \
         nothing is kept between two calls; there is no network.",
        code::properties(runner.as_ref(), "The Python program"),
        &["code"],
    );
    // A program changes nothing but a private directory that is removed afterwards, or its project's, where
    // an interrupted run may leave half of its writes (P3).
    let traits = ToolTraits { files: FileAccess::Runs, ..ToolTraits::READ };
    let traits_in_project = ToolTraits { idempotent: false, ..traits };
    let tool = BuiltinTool::new(spec, traits, move |arguments, context| {
        code::run(runner.as_ref(), Language::Python, &arguments, context)
    });
    Box::new(BuiltinTool { traits_in_project, ..tool })
}
