//! `execute_python`: runs a Python program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext};
use crate::tools::code::{self, CodeArguments};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::{Language, Level};
use std::sync::Arc;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    // A program changes nothing but a private directory that is removed afterwards, or its project's, where
    // an interrupted run may leave half of its writes (P3).
    let traits = ToolTraits { files: FileAccess::Runs, ..ToolTraits::READ };
    let traits_in_project = ToolTraits { idempotent: false, ..traits };
    let run = move |arguments: CodeArguments, context: &ToolContext| {
        code::run(runner.as_ref(), Language::Python, &arguments, context)
    };
    let tool = BuiltinTool::new(definition(&Level::FOR_CODE), traits, run);
    let tool = tool.of_code(&deps.code, Language::Python, definition);
    Box::new(BuiltinTool { traits_in_project, ..tool })
}

fn definition(levels: &[Level]) -> ToolSpec {
    spec(
        "execute_python",
        "Run a Python program and return what it prints: use print(). No variables are kept between calls; no network.",
        code::properties(levels),
        &["code"],
    )
}
