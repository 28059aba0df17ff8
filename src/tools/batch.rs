//! One batch of calls, prepared: which run, which are refused, which are twins. Owns the order of preparation
//! (parse → find → allow → unwrap → coerce → validate → dedup); refuses to run anything.

use super::arguments;
use super::executor::Registered;
use super::nearest::{NAME_CHARS, nearest};
use crate::domain::canonical::canonical;
use crate::domain::tool::{ToolCall, ToolChoice};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A call that will run.
pub(super) struct Task<'a> {
    /// The call.
    pub(super) call: &'a ToolCall,
    /// Its tool.
    pub(super) tool: &'a Registered,
    /// Its arguments, fit for the tool.
    pub(super) arguments: Map<String, Value>,
    /// Calls of the same batch that ask for the same.
    pub(super) twins: Vec<&'a ToolCall>,
}

/// What a batch comes to before anything runs.
#[derive(Default)]
pub(super) struct Batch<'a> {
    /// In call order.
    pub(super) tasks: Vec<Task<'a>>,
    /// With the reason, for the model.
    pub(super) refused: Vec<(&'a ToolCall, String)>,
}

impl<'a> Batch<'a> {
    /// Prepares the calls.
    pub(super) fn prepare(calls: &'a [ToolCall], tools: &'a [Registered], allowed: &ToolChoice) -> Self {
        let mut batch = Self::default();
        let mut seen: HashMap<(&str, String), usize> = HashMap::new();
        for call in calls {
            let (tool, arguments) = match fit(call, tools, allowed) {
                Ok(fitting) => fitting,
                Err(reason) => {
                    batch.refused.push((call, reason));
                    continue;
                }
            };
            let key = (tool.spec.name.as_ref(), canonical(&Value::Object(arguments.clone())));
            let twin = seen.get(&key).filter(|_| tool.traits.idempotent);
            if let Some(task) = twin.and_then(|at| batch.tasks.get_mut(*at)) {
                task.twins.push(call);
                continue;
            }
            seen.insert(key, batch.tasks.len());
            batch.tasks.push(Task { call, tool, arguments, twins: Vec::new() });
        }
        batch
    }
}

type Fitting<'a> = (&'a Registered, Map<String, Value>);

fn fit<'a>(call: &ToolCall, tools: &'a [Registered], allowed: &ToolChoice) -> Result<Fitting<'a>, String> {
    let parsed = match arguments::parse(&call.arguments) {
        // Malformed JSON is told first, whatever the name; any other misfit needs the tool to be known.
        Err(error @ arguments::Error::Malformed(_)) => return Err(error.to_string()),
        other => other,
    };
    let usable = || tools.iter().filter(|tool| tool.is_allowed(allowed));
    let offered = || usable().map(|tool| tool.spec.name.as_ref());
    let name: String = call.name.chars().take(NAME_CHARS).collect();
    let Some(tool) = tools.iter().find(|tool| tool.names().any(|known| known == call.name)) else {
        // An alias that is near stands for the name that the model was told.
        let near = nearest(&name, usable().flat_map(Registered::names));
        let near = near.and_then(|near| usable().find(|tool| tool.names().any(|known| known == near)));
        return Err(match near.map(|tool| tool.spec.name.as_ref()) {
            Some(near) => format!("Tool not found: {name}. Did you mean '{near}'?"),
            None => format!("Tool not found: {name}. Available: {}", list(offered())),
        });
    };
    if !tool.is_allowed(allowed) {
        return Err(format!("Tool not allowed in this job: {name}. Available: {}", list(offered())));
    }
    let misfit = |error: String| format!("Invalid parameters for tool '{name}': {error}");
    let parsed = parsed.map_err(|error| misfit(error.to_string()))?;
    let arguments = arguments::unwrap(parsed, |name| tool.schema.has(name));
    let arguments = arguments::renamed(arguments, tool.aliases.parameters);
    Ok((tool, tool.schema.fit(arguments).map_err(misfit)?))
}

fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
