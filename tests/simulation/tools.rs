//! The simulated tools. `pure` and `network` may run again, `effect`, `sandbox` and `guarded` may not.
//! `sandbox` stops when it is cancelled, `network` may hang until it is cancelled, and `guarded` needs
//! approval. The oracle records each run.

use super::model::TOOLS;
use super::process_faults::ProcessFaults;
use super::world::{Flaw, World};
use nanoclaw::domain::tool::{ToolCall, ToolDefinition, ToolSpec};
use nanoclaw::ports::{CancelToken, Journal, ToolContext, ToolOutcome, ToolScope, Toolbox};
use std::sync::Arc;
use std::time::Duration;

/// Checks of the cancel token before `network` answers.
const HANGS: u32 = 30;

/// The tools of one process.
pub(crate) struct SimTools {
    world: Arc<World>,
    faults: Arc<ProcessFaults>,
}

/// Whether a tool may really run twice, independent of its claim.
fn may_repeat(name: &str) -> bool {
    name == "pure" || name == "network"
}

fn outcome(content: String, skipped: bool) -> ToolOutcome {
    ToolOutcome { content, skipped, full_result: None }
}

impl SimTools {
    pub(crate) fn new(world: &Arc<World>, faults: &Arc<ProcessFaults>) -> Self {
        Self { world: Arc::clone(world), faults: Arc::clone(faults) }
    }

    fn claims_idempotent(&self, name: &str) -> bool {
        self.world.flaw == Flaw::AllIdempotent || may_repeat(name)
    }

    fn call(&self, call: &ToolCall, context: &ToolContext, journal: &dyn Journal) {
        self.world.point();
        let may_start = || self.claims_idempotent(&call.name) || journal.started(call).is_continue();
        // A dead process reports a result as well; the engine stops because its store fails.
        if context.cancel.is_cancelled() || self.faults.is_dead() || !may_start() || self.faults.is_dead() {
            return journal.finished(call, outcome("(cancelled)".to_owned(), true));
        }
        let store = Arc::clone(&self.world.process().store);
        self.world.oracle(|oracle| oracle.runs(&*store, context.job, call, may_repeat(&call.name)));
        self.world.point();
        let is_cut = match call.name.as_str() {
            "network" if !self.world.is_calm() && self.world.chance(2) => self.hang(&context.cancel),
            "sandbox" => context.cancel.is_cancelled(),
            _ => false,
        };
        let text = if is_cut { "(cut off)".to_owned() } else { format!("ran {}", call.id_ref) };
        journal.finished(call, outcome(text, false));
    }

    /// Hangs; returns whether it was cancelled.
    fn hang(&self, cancel: &CancelToken) -> bool {
        for _ in 0..HANGS {
            self.world.point();
            if self.faults.is_dead() || cancel.is_cancelled() {
                return true;
            }
            cancel.sleep(Duration::from_secs(4));
        }
        false
    }
}

impl Toolbox for SimTools {
    fn offered(&self, _: &ToolScope<'_>) -> Vec<ToolDefinition> {
        let spec = |name: &'static str| ToolSpec {
            name: name.into(),
            description: "".into(),
            parameters: serde_json::Value::Null,
        };
        TOOLS.map(|name| spec(name).into()).to_vec()
    }

    fn has_tool(&self, name: &str) -> bool {
        TOOLS.contains(&name)
    }

    fn needs_approval(&self, name: &str, _: &[String]) -> bool {
        self.world.flaw != Flaw::Unasked && name == "guarded"
    }

    fn only_computes(&self, name: &str) -> bool {
        name == "pure"
    }

    /// Runs the calls one after the other in random order.
    fn run(&self, calls: &[ToolCall], context: &ToolContext, journal: &dyn Journal) {
        let mut left: Vec<_> = calls.iter().collect();
        while !left.is_empty() {
            let at = usize::try_from(self.world.roll(left.len() as u64)).unwrap();
            self.call(left.swap_remove(at), context, journal);
        }
    }
}
