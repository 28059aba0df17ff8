//! `execute_javascript`: runs a JavaScript program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext};
use crate::tools::code::{self, CodeArguments};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::{Language, Level};
use std::sync::Arc;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    let files = Arc::clone(&deps.files);
    let run = move |arguments: CodeArguments, context: &ToolContext| {
        code::run((runner.as_ref(), files.as_ref()), Language::JavaScript, &arguments, context)
    };
    // A program has no files.
    let tool = BuiltinTool::new(definition(&Level::FOR_CODE), ToolTraits::READ, run);
    Box::new(tool.of_code(&deps.code, Language::JavaScript, definition))
}

fn definition(levels: &[Level]) -> ToolSpec {
    spec(
        "execute_javascript",
        "Run a JavaScript program (QuickJS: no browser, no Node modules, no network). Returns what it prints with console.log. \
         Nothing is kept between calls.",
        code::properties(levels),
        &["code"],
    )
}
