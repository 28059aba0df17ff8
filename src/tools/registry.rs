//! What tools are built from. Owns the list of what a tool may ask for; refuses to be known by the agent loop.

use super::bash::BashRules;
use super::code::CodeRunner;
use crate::ports::Results;
use std::sync::Arc;

/// Six fields at most: a tool that needs more is more than a tool.
#[derive(Clone)]
pub struct ToolDeps {
    /// Runs model-written code behind the kernel.
    pub code: Arc<dyn CodeRunner>,
    /// What the operator says about commands.
    pub bash: BashRules,
    /// What was cut of earlier results.
    pub results: Arc<dyn Results>,
    /// A result as the model sees it, characters of JSON.
    pub result_chars: usize,
}
