//! Prepares a batch: which calls run, which are refused, which are duplicates. The order is parse → find →
//! allow → unwrap → coerce → validate → approval → duplicates.

use super::arguments::{self, ArgumentsError};
use super::catalogue::ToolCatalogue;
use super::nearest::{NAME_CHARS, nearest};
use super::options::ExecutorOptions;
use super::registered_tool::{RegisteredTool, ToolRefusal};
use super::schema::InvalidArguments;
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
    /// The side effects of the call, in this project or in none.
    pub(super) traits: ToolTraits,
    /// The checked arguments.
    pub(super) arguments: Map<String, Value>,
    /// The arguments in canonical JSON.
    pub(super) canonical: String,
    /// Calls of the same batch that share its result.
    pub(super) duplicates: Vec<&'a ToolCall>,
}

/// The calls of a batch: those that run, and those that are refused.
#[derive(Default)]
pub(super) struct PreparedBatch<'a> {
    /// In call order.
    pub(super) calls: Vec<PreparedCall<'a>>,
    /// With the reason for the model.
    pub(super) refused: Vec<(&'a ToolCall, String)>,
}

/// Checks calls.
pub(super) struct CallPreparer<'a> {
    pub(super) catalogue: &'a ToolCatalogue,
    pub(super) options: &'a ExecutorOptions,
    pub(super) context: &'a ToolContext,
}

impl<'a> PreparedBatch<'a> {
    pub(super) fn prepare(calls: &'a [ToolCall], preparer: &CallPreparer<'a>) -> Self {
        let mut batch = Self::default();
        // Duplicates have the same tool and arguments and, where it matters, the same number of writes before
        // them.
        let mut seen: HashMap<(&str, String, usize), usize> = HashMap::new();
        let mut writes = 0;
        for call in calls {
            let (tool, arguments) = match preparer.check(call) {
                Ok(checked) => checked,
                Err(reason) => {
                    batch.refused.push((call, reason));
                    continue;
                }
            };
            let traits = tool.tool.traits_of(&arguments, preparer.context);
            let canonical = canonical(&Value::Object(arguments.clone()));
            let key = |writes| {
                let writes = if is_independent(traits) { 0 } else { writes };
                (tool.spec.name.as_ref(), canonical.clone(), writes)
            };
            let duplicate = seen.get(&key(writes)).filter(|_| traits.idempotent);
            if let Some(prepared) = duplicate.and_then(|index| batch.calls.get_mut(*index)) {
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

/// Whether no other call of the batch can change the result.
fn is_independent(traits: ToolTraits) -> bool {
    traits.cacheable && traits.files == FileAccess::None
}

/// Whether the call may change the result of a later one. An idempotent call may, too, unless it is a pure
/// read or only reads files.
fn may_change(traits: ToolTraits) -> bool {
    let only_reads = traits.cacheable || traits.files == FileAccess::Reads;
    !traits.idempotent || !only_reads || matches!(traits.files, FileAccess::Writes | FileAccess::Runs)
}

type CheckedCall<'a> = (&'a RegisteredTool, Map<String, Value>);

impl<'a> CallPreparer<'a> {
    fn check(&self, call: &ToolCall) -> Result<CheckedCall<'a>, String> {
        let parsed = match arguments::parse(&call.arguments) {
            // Malformed JSON is reported first, even for an unknown tool.
            Err(error @ ArgumentsError::Malformed(_)) => return Err(error.to_string()),
            other => other,
        };
        let name = &call.name;
        let tool = self.find_usable(name).map_err(|reason| self.needs_job(name).unwrap_or(reason))?;
        let invalid_parameters = |error: String, given: Map<String, Value>| {
            let example = tool.schema.example(given).map_or_else(String::new, |example| {
                format!(". A valid call of {}: {example}", tool.spec.name)
            });
            format!("Invalid parameters for tool '{name}': {error}{example}")
        };
        let parsed = parsed.map_err(|error| invalid_parameters(error.to_string(), Map::new()))?;
        let has_parameter = |name: &str| tool.schema.has(name);
        let arguments = arguments::unwrap(parsed, has_parameter);
        let arguments = arguments::apply_aliases(arguments, tool.aliases.parameters, has_parameter);
        let arguments = tool
            .schema
            .validate(arguments)
            .map_err(|InvalidArguments { error, given }| invalid_parameters(error, given))?;
        if self.needs_approval(name, tool) && !self.context.approved.covers(&call.id_ref) {
            return Err(self.approval_missing(name));
        }
        Ok((tool, arguments))
    }

    fn needs_approval(&self, name: &str, tool: &RegisteredTool) -> bool {
        let asked = &self.context.rights.approval_tools;
        self.catalogue.needs_approval(name, Some(tool), &self.options.approval, asked)
    }

    /// Why only a job itself can make this call, which nobody can approve here.
    fn needs_job(&self, name: &str) -> Option<String> {
        let tool = self.catalogue.find(name).filter(|_| self.context.approved == ApprovedCalls::None)?;
        self.needs_approval(name, tool).then(|| self.approval_missing(name))
    }

    fn approval_missing(&self, name: &str) -> String {
        match &self.context.approved {
            ApprovedCalls::None => format!(
                "The tool '{name}' needs approval, and nobody can be asked here: do without it, or leave it to the job, which has to call \
                 it directly"
            ),
            ApprovedCalls::All | ApprovedCalls::Calls(_) => {
                format!("The tool '{name}' needs approval, and nobody was asked: make the call again")
            }
        }
    }

    /// The tool of this name, if the job may use it.
    fn find_usable(&self, requested: &str) -> Result<&'a RegisteredTool, String> {
        let scope = self.context.scope();
        let usable_tools = || self.catalogue.tools().iter().filter(|tool| tool.refusal(&scope).is_none());
        let usable_names = || usable_tools().map(|tool| tool.spec.name.as_ref());
        let name: String = requested.chars().take(NAME_CHARS).collect();
        let Some(tool) = self.catalogue.find(requested) else {
            // The suggestion is the main name, even if an alias is nearer.
            let suggestion = nearest(&name, usable_tools().flat_map(|tool| tool.names()));
            let suggestion = suggestion.and_then(|suggestion| {
                usable_tools().find(|tool| tool.names().any(|known_name| known_name == suggestion))
            });
            return Err(match suggestion.map(|tool| tool.spec.name.as_ref()) {
                Some(suggestion) => format!("Tool not found: {name}. Did you mean '{suggestion}'?"),
                None => format!("Tool not found: {name}. Available: {}", list(usable_names())),
            });
        };
        match tool.refusal(&self.context.scope()) {
            None => Ok(tool),
            Some(ToolRefusal::NotAllowed) => {
                Err(format!("Tool not allowed in this job: {name}. Available: {}", list(usable_names())))
            }
            Some(ToolRefusal::Unusable(reason)) => {
                Err(format!("Tool not available in this job: {name}. {}", capitalized(&reason)))
            }
        }
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
