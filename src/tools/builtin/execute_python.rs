//! `execute_python`: runs a Python program in the sandbox.

use super::builtin_tool::{BuiltinTool, spec};
use super::names;
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{McpOffer, Tool, ToolContext};
use crate::tools::code::{self, CodeArguments};
use crate::tools::registry::ToolDeps;
use nanoclaw_sandbox::{Language, Level};
use serde_json::{Map, Value};
use std::sync::Arc;

const MCP_OFFER: McpOffer = McpOffer {
    name: names::RUN_PYTHON,
    title: "Run Python",
    description: "Run a Python program in a sandbox without network and return what it prints: use print(). No variables are kept \
                  between calls. With strictness 'lenient' it runs in the directory of the project, whose files stay.",
};

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let runner = Arc::clone(&deps.code);
    // A program with files may leave half of its writes when it is interrupted (P3). Without files it changes
    // nothing.
    let traits = ToolTraits { files: FileAccess::Runs, idempotent: false, cacheable: false };
    let traits_runner = Arc::clone(&runner);
    let traits_of = move |arguments: &Map<String, Value>, context: &ToolContext| {
        let level = code::level(traits_runner.as_ref(), arguments, context);
        let has_files = context.has_workspace() && code::has_files(Language::Python, level);
        if has_files { traits } else { ToolTraits::READ }
    };
    let files = Arc::clone(&deps.files);
    let run = move |arguments: CodeArguments, context: &ToolContext| {
        code::run((runner.as_ref(), files.as_ref()), Language::Python, &arguments, context)
    };
    let tool = BuiltinTool::new(definition(&Level::FOR_CODE), traits, run);
    let tool = tool.of_code(&deps.code, Language::Python, definition);
    Box::new(BuiltinTool { traits_of: Some(Box::new(traits_of)), mcp_offer: Some(MCP_OFFER), ..tool })
}

fn definition(levels: &[Level]) -> ToolSpec {
    spec(
        "execute_python",
        "Run a Python program and return what it prints: use print(). No variables are kept between calls; no network.",
        code::properties(levels),
        &["code"],
    )
}
