//! `execute_javascript`: runs a JavaScript program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use crate::domain::tool::ToolTraits;
use crate::ports::Tool;
use crate::tools::code;
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::Language;
use std::sync::Arc;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    let spec = spec(
        "execute_javascript",
        "Run a JavaScript program in a sandbox (QuickJS, no browser, no Node modules) and get what it prints with \
         console.log, with the error if it fails. Nothing is kept between two calls; there is no network.",
        code::properties(runner.as_ref(), "The JavaScript program"),
        &["code"],
    );
    // A program changes nothing but a private directory that is removed afterwards.
    Box::new(BuiltinTool::new(spec, ToolTraits::READ, move |arguments, context| {
        code::run(runner.as_ref(), Language::JavaScript, &arguments, context)
    }))
}
