//! All tools of this server, one line each, in alphabetical order. Owns what tools are built from; refuses to be
//! known by the agent loop.

use super::code::CodeRunner;
use super::{calculator, execute_javascript, execute_python, get_weather, json_process, text_process};
use crate::ports::Tool;
use std::sync::Arc;

/// What tools are built from. Six fields at most: a tool that needs more is more than a tool.
#[derive(Clone)]
pub struct ToolDeps {
    /// Runs model-written code behind the kernel.
    pub code: Arc<dyn CodeRunner>,
}

/// The registration of one tool.
type Register = fn(&ToolDeps) -> Box<dyn Tool>;

/// One line per tool; models see them in this order, which keeps their prompt caches warm.
const REGISTRY: [Register; 6] = [
    calculator::register,
    execute_javascript::register,
    execute_python::register,
    get_weather::register,
    json_process::register,
    text_process::register,
];

/// Every tool, built.
pub fn registered(deps: &ToolDeps) -> Vec<Box<dyn Tool>> {
    REGISTRY.iter().map(|register| register(deps)).collect()
}
