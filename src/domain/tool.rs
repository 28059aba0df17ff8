//! What a tool call is, and what a tool says of itself. Refuses to know any tool by name (P6).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that the model asked for.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AskedToolCall"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call within its job; a result refers to it.
    pub id_ref: String,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: a JSON text, possibly malformed.
    pub arguments: String,
}

/// What a tool says of itself, in the shape that models are told (`OpenAI` function format).
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Unique among all tools.
    pub name: &'static str,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// JSON Schema of the arguments, an object schema.
    pub parameters: Value,
}

/// Other names under which a tool is known: taken in calls and in a job's list of tools, never offered to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aliases {
    /// Of the tool.
    pub names: &'static [&'static str],
    /// Of its parameters: the other name, and the one in the schema.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// What a tool's runs may do to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolTraits {
    /// Running it twice is the same as running it once: it is rerun when a crash cut it off (P3).
    pub idempotent: bool,
}

/// Which tools a job offers to its model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// `true`: all of them; `false`: none.
    All(bool),
    /// Just these.
    Named(Vec<String>),
}

impl ToolChoice {
    /// Whether any tool at all is offered.
    pub fn offers_any(&self) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => !names.is_empty(),
        }
    }

    /// Whether the tool of this name is offered, and so may be executed.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|n| n == name),
        }
    }
}

/// How strictly code is confined; the sandbox says what each level means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// Pure computation on a short module list, 5 s.
    Strict,
    /// Pure computation on a wide module list, 10 s.
    Standard,
    /// The whole standard library and a private directory, 30 s.
    Lenient,
}
