//! Prepares a batch: which calls run, which are refused, which are duplicates. The order is parse → find →
//! allow → unwrap → coerce → validate → approval → duplicates.

use super::arguments::{self, ArgumentsError};
use super::catalogue::{RegisteredTool, ToolCatalogue};
use super::nearest::{NAME_CHARS, nearest};
use super::options::ExecutorOptions;
use crate::domain::canonical::canonical;
use crate::domain::tool::{FileAccess, ToolCall, ToolTraits};
use crate::ports::{ApprovedCalls, ToolContext};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A call that will run.
pub(super) struct PreparedCall<'a> {
    /// The call.
    pub(super) call: &'a ToolCall,
    /// Its tool.
    pub(super) tool: &'a RegisteredTool,
    /// What its run may do, here.
    pub(super) traits: ToolTraits,
    /// Its arguments, fit for the tool.
    pub(super) arguments: Map<String, Value>,
    /// The same in one spelling.
    pub(super) canonical: String,
    /// Calls of the same batch that ask for the same.
    pub(super) duplicates: Vec<&'a ToolCall>,
}

/// What a batch comes to before anything runs.
#[derive(Default)]
pub(super) struct PreparedBatch<'a> {
    /// In call order.
    pub(super) calls: Vec<PreparedCall<'a>>,
    /// With the reason, for the model.
    pub(super) refused: Vec<(&'a ToolCall, String)>,
}

/// What calls are prepared by.
pub(super) struct CallPreparer<'a> {
    /// The tools there are.
    pub(super) catalogue: &'a ToolCatalogue,
    /// What the operator says.
    pub(super) options: &'a ExecutorOptions,
    /// Whose calls they are.
    pub(super) context: &'a ToolContext,
}

impl<'a> PreparedBatch<'a> {
    /// Prepares the calls.
    pub(super) fn prepare(calls: &'a [ToolCall], preparer: &CallPreparer<'a>) -> Self {
        let mut batch = Self::default();
        // Twins by tool, arguments and, where it matters, how many calls before them may have changed
        // something.
        let mut seen: HashMap<(&str, String, usize), usize> = HashMap::new();
        let mut writes = 0;
        for call in calls {
            let (tool, arguments) = match preparer.fit(call) {
                Ok(fitting) => fitting,
                Err(reason) => {
                    batch.refused.push((call, reason));
                    continue;
                }
            };
            let traits = tool.traits_in(preparer.context.project_id.is_some());
            let canonical = canonical(&Value::Object(arguments.clone()));
            let key = |writes| {
                let writes = if is_unmoved(traits) { 0 } else { writes };
                (tool.spec.name.as_ref(), canonical.clone(), writes)
            };
            let duplicate = seen.get(&key(writes)).filter(|_| traits.idempotent);
            if let Some(prepared) = duplicate.and_then(|at| batch.calls.get_mut(*at)) {
                prepared.duplicates.push(call);
                continue;
            }
            writes += usize::from(may_change(traits));
            seen.insert(key(writes), batch.calls.len());
            batch.calls.push(PreparedCall {
                call,
                tool,
                traits,
                arguments,
                canonical,
                duplicates: Vec::new(),
            });
        }
        batch
    }
}

/// Whether nothing that a batch does changes what the call comes to.
fn is_unmoved(traits: ToolTraits) -> bool {
    traits.cacheable && traits.files == FileAccess::None
}

/// Whether a later call may see something else because of this one. That running it twice is the same as once
/// does not mean that it changes nothing; only what says that it is a pure read, or reads files, is taken to.
fn may_change(traits: ToolTraits) -> bool {
    let only_reads = traits.cacheable || traits.files == FileAccess::Reads;
    !traits.idempotent || !only_reads || matches!(traits.files, FileAccess::Writes | FileAccess::Runs)
}

type FittedCall<'a> = (&'a RegisteredTool, Map<String, Value>);

impl<'a> CallPreparer<'a> {
    fn fit(&self, call: &ToolCall) -> Result<FittedCall<'a>, String> {
        let parsed = match arguments::parse(&call.arguments) {
            // Malformed JSON is told first, whatever the name; any other misfit needs the tool to be known.
            Err(error @ ArgumentsError::Malformed(_)) => return Err(error.to_string()),
            other => other,
        };
        let tool = self.usable(&call.name)?;
        let name = &call.name;
        let misfit = |error: String| format!("Invalid parameters for tool '{name}': {error}");
        let parsed = parsed.map_err(|error| misfit(error.to_string()))?;
        let arguments = arguments::unwrap(parsed, |name| tool.schema.has(name));
        let arguments = arguments::renamed(arguments, tool.aliases.parameters);
        let arguments = tool.schema.fit(arguments).map_err(misfit)?;
        if self.options.approval.covers(name, Some(tool)) && !self.context.approved.covers(&call.id_ref) {
            return Err(self.unasked(name));
        }
        Ok((tool, arguments))
    }

    fn unasked(&self, name: &str) -> String {
        match &self.context.approved {
            ApprovedCalls::None => format!(
                "The tool '{name}' needs approval, and nobody can be asked here: do without it, or leave it to the job"
            ),
            ApprovedCalls::All | ApprovedCalls::Calls(_) => {
                format!("The tool '{name}' needs approval, and nobody was asked: make the call again")
            }
        }
    }

    /// The tool of this name, if the job may use it.
    fn usable(&self, called: &str) -> Result<&'a RegisteredTool, String> {
        let allowed = &self.context.allowed;
        let usable = || self.catalogue.tools().iter().filter(|tool| tool.is_allowed(allowed));
        let offered = || usable().map(|tool| tool.spec.name.as_ref());
        let name: String = called.chars().take(NAME_CHARS).collect();
        let Some(tool) = self.catalogue.find(called) else {
            // An alias that is near stands for the name that the model was told.
            let near = nearest(&name, usable().flat_map(|tool| tool.names()));
            let near = near.and_then(|near| usable().find(|tool| tool.names().any(|known| known == near)));
            return Err(match near.map(|tool| tool.spec.name.as_ref()) {
                Some(near) => format!("Tool not found: {name}. Did you mean '{near}'?"),
                None => format!("Tool not found: {name}. Available: {}", list(offered())),
            });
        };
        if tool.is_allowed(allowed) {
            return Ok(tool);
        }
        Err(format!("Tool not allowed in this job: {name}. Available: {}", list(offered())))
    }
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
