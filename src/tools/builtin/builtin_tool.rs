//! A built-in tool as data: its definition, its side effects, and a function of typed arguments. Tools that
//! need more methods of [`Tool`] implement the trait themselves.

use super::names;
use crate::domain::tool::{Aliases, FileAccess, ToolDefinition, ToolGroup, ToolReach, ToolSpec, ToolTraits};
use crate::ports::{McpOffer, Tool, ToolContext, ToolError, ToolOffer, ToolScope, Unavailability};
use crate::tools::code::{self, CodeRunner};
use nanoclaw_sandbox::{Language, Level};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Changes something outside the workspace. A second call changes it again.
pub(super) const ACTS: ToolTraits =
    ToolTraits { idempotent: false, cacheable: false, files: FileAccess::None };

type TraitsFunction = dyn Fn(&Map<String, Value>, &ToolContext) -> ToolTraits + Send + Sync;
type JobDefinitionFunction = dyn Fn(&ToolScope<'_>) -> Option<ToolDefinition> + Send + Sync;
type AvailabilityFunction = dyn Fn(&ToolScope<'_>) -> Option<Unavailability> + Send + Sync;
type RunFunction = dyn Fn(&Map<String, Value>, &ToolContext) -> Result<Value, ToolError> + Send + Sync;

pub(super) struct BuiltinTool {
    pub(super) spec: ToolSpec,
    pub(super) traits: ToolTraits,
    pub(super) traits_of: Option<Box<TraitsFunction>>,
    pub(super) run: Box<RunFunction>,
    pub(super) reach: ToolReach,
    pub(super) own_timeout: Duration,
    /// [`Tool::offer`].
    pub(super) offer: ToolOffer,
    /// [`Tool::mcp_offer`].
    pub(super) mcp_offer: Option<McpOffer>,
    /// [`Tool::definition_in`].
    pub(super) definition_in: Box<JobDefinitionFunction>,
    /// [`Tool::unavailability`].
    pub(super) unavailability: Box<AvailabilityFunction>,
}

impl BuiltinTool {
    /// A tool that calls `run` with its arguments as an `A`.
    pub(super) fn new<A: DeserializeOwned>(
        spec: ToolSpec,
        traits: ToolTraits,
        run: impl Fn(A, &ToolContext) -> Result<Value, ToolError> + Send + Sync + 'static,
    ) -> Self {
        let run =
            move |arguments: &Map<String, Value>, context: &ToolContext| run(typed(arguments)?, context);
        Self {
            offer: names::offer(&spec.name),
            mcp_offer: None,
            spec,
            traits,
            traits_of: None,
            run: Box::new(run),
            reach: ToolReach::Here,
            own_timeout: Duration::ZERO,
            definition_in: Box::new(|_| None),
            unavailability: Box::new(|_| None),
        }
    }
}

impl BuiltinTool {
    /// A tool that runs programs: jobs are offered the levels that they may use, while the language works.
    pub(super) fn of_code(
        self,
        runner: &Arc<dyn CodeRunner>,
        language: Language,
        definition: fn(&[Level]) -> ToolSpec,
    ) -> Self {
        let (levels, faults) = (Arc::clone(runner), Arc::clone(runner));
        // Most jobs have the same levels.
        let last: Mutex<Option<(Vec<Level>, ToolDefinition)>> = Mutex::default();
        let definition_in = move |scope: &ToolScope<'_>| {
            let levels = code::levels_in(levels.as_ref(), scope);
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, same)) = last.as_ref().filter(|(known, _)| *known == levels) {
                return Some(same.clone());
            }
            let made = ToolDefinition::concise(definition(&levels));
            *last = Some((levels, made.clone()));
            Some(made)
        };
        let unavailability = move |scope: &ToolScope<'_>| {
            let level = code::default_level(faults.as_ref(), scope);
            faults.known_fault(language, level).map(Unavailability::Now)
        };
        Self { definition_in: Box::new(definition_in), unavailability: Box::new(unavailability), ..self }
    }
}

impl Tool for BuiltinTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn definition_in(&self, scope: &ToolScope<'_>) -> Option<ToolDefinition> {
        (self.definition_in)(scope)
    }

    fn unavailability(&self, scope: &ToolScope<'_>) -> Option<Unavailability> {
        (self.unavailability)(scope)
    }

    fn group(&self) -> Option<ToolGroup> {
        names::group(&self.spec.name)
    }

    fn offer(&self) -> ToolOffer {
        self.offer
    }

    fn mcp_offer(&self) -> Option<McpOffer> {
        self.mcp_offer
    }

    fn aliases(&self) -> Aliases {
        names::aliases(&self.spec.name)
    }

    fn traits(&self) -> ToolTraits {
        self.traits
    }

    fn traits_of(&self, arguments: &Map<String, Value>, context: &ToolContext) -> ToolTraits {
        self.traits_of.as_ref().map_or(self.traits, |traits_of| traits_of(arguments, context))
    }

    fn reach(&self) -> ToolReach {
        self.reach
    }

    fn own_timeout(&self, _: &Map<String, Value>) -> Duration {
        self.own_timeout
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        (self.run)(arguments, context)
    }
}

/// A definition whose parameters are `properties` and nothing else.
pub(super) fn spec(
    name: &'static str,
    description: impl Into<Cow<'static, str>>,
    properties: Value,
    required: &[&str],
) -> ToolSpec {
    let parameters = Value::from_iter([
        ("type", "object".into()),
        ("properties", properties),
        ("required", json!(required)),
        ("additionalProperties", false.into()),
    ]);
    ToolSpec { name: name.into(), description: description.into(), parameters }
}

/// The arguments as an `A`. The executor has checked them against the schema.
pub(super) fn typed<A: DeserializeOwned>(arguments: &Map<String, Value>) -> Result<A, ToolError> {
    serde_json::from_value(Value::Object(arguments.clone()))
        .map_err(|error| ToolError::Invalid(error.to_string()))
}

/// A text without white space around it; `None` if nothing is left.
pub(super) fn trimmed(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}
