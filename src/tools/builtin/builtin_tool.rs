//! A built-in tool as data: its definition, its side effects, and a function of typed arguments. Tools that
//! need more methods of [`Tool`] implement the trait themselves.

use crate::domain::tool::{FileAccess, ToolReach, ToolSpec, ToolTraits};
use crate::ports::{Tool, ToolContext, ToolError};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::time::Duration;

/// Changes something outside the project. A second call changes it again.
pub(super) const ACTS: ToolTraits =
    ToolTraits { idempotent: false, cacheable: false, files: FileAccess::None };

type RunFunction = dyn Fn(&Map<String, Value>, &ToolContext) -> Result<Value, ToolError> + Send + Sync;

pub(super) struct BuiltinTool {
    pub(super) spec: ToolSpec,
    pub(super) traits: ToolTraits,
    pub(super) traits_in_project: ToolTraits,
    pub(super) run: Box<RunFunction>,
    pub(super) reach: ToolReach,
    pub(super) own_timeout: Duration,
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
            spec,
            traits,
            traits_in_project: traits,
            run: Box::new(run),
            reach: ToolReach::Here,
            own_timeout: Duration::ZERO,
        }
    }
}

impl Tool for BuiltinTool {
    fn spec(&self) -> ToolSpec {
        self.spec.clone()
    }

    fn traits(&self) -> ToolTraits {
        self.traits
    }

    fn traits_in(&self, has_project: bool) -> ToolTraits {
        if has_project { self.traits_in_project } else { self.traits }
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
