//! `execute_javascript`: runs a JavaScript program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use super::names;
use crate::domain::tool::{ToolSpec, ToolTraits};
use crate::ports::{McpOffer, Tool, ToolContext};
use crate::tools::code::{self, CodeArguments};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::{Language, Level};
use std::sync::Arc;

const MCP_OFFER: McpOffer = McpOffer {
    name: names::RUN_JAVASCRIPT,
    title: "Run JavaScript",
    description: "Run a JavaScript program in a sandbox (QuickJS: no browser, no Node modules, no network, no files). Returns what \
                  it prints with console.log. Nothing is kept between calls.",
};

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    let files = Arc::clone(&deps.files);
    let run = move |arguments: CodeArguments, context: &ToolContext| {
        code::run((runner.as_ref(), files.as_ref()), Language::JavaScript, &arguments, context)
    };
    // A program has no files.
    let tool = BuiltinTool::new(definition(&Level::FOR_CODE), ToolTraits::READ, run);
    let tool = tool.of_code(&deps.code, Language::JavaScript, definition);
    Box::new(BuiltinTool { mcp_offer: Some(MCP_OFFER), ..tool })
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
