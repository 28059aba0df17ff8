//! Tool calls, definitions and traits. No tool is known by name here (P6).

use super::characters::CharacterCounts;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

/// A tool call of a model.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AskedToolCall"))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call within its job; the result refers to it.
    pub id_ref: String,
    /// Tool name as the model wrote it.
    pub name: String,
    /// Arguments as the model wrote them: a JSON text, possibly malformed.
    pub arguments: String,
}

impl ToolCall {
    /// Arguments as a JSON object, which is all that providers and some clients accept. Malformed ones are
    /// wrapped: the result of the tool tells the model what is wrong with them.
    pub fn object_of(arguments: &str) -> Value {
        match serde_json::from_str::<Value>(arguments) {
            Ok(object @ Value::Object(_)) => object,
            _ if arguments.trim().is_empty() => Value::Object(Map::new()),
            _ => json!({"malformed_arguments": arguments}),
        }
    }
}

/// Definition of a tool (`OpenAI` function format).
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolSpec {
    /// Unique name.
    pub name: Cow<'static, str>,
    /// Description for the model: what the tool does and when to use it.
    pub description: Cow<'static, str>,
    /// JSON Schema of the arguments; an object schema.
    pub parameters: Value,
}

/// A tool definition with its rendered text and size. Clones share it, because every model call carries all
/// definitions.
#[derive(Debug, Clone)]
pub struct ToolDefinition(Arc<Told>);

#[derive(Debug, Clone)]
struct Told {
    spec: ToolSpec,
    /// `"name":…,"description":…`
    introduction: String,
    schema: String,
    letters: CharacterCounts,
    bytes: usize,
    strict: Option<bool>,
    /// A JSON list of arguments.
    examples: Option<String>,
}

impl ToolDefinition {
    /// Characters of the complete definition, by cost class.
    pub fn letters(&self) -> CharacterCounts {
        self.0.letters
    }

    /// Bytes of the complete definition.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// Name and description as fields of a JSON object, without braces.
    pub fn introduction(&self) -> &str {
        &self.0.introduction
    }

    /// JSON Schema of the parameters.
    pub fn schema(&self) -> &str {
        &self.0.schema
    }

    /// Whether the provider must enforce the schema; `None` if nobody has said so.
    pub fn strict(&self) -> Option<bool> {
        self.0.strict
    }

    /// Examples of arguments, as a JSON list.
    pub fn examples(&self) -> Option<&str> {
        self.0.examples.as_deref()
    }
}

impl ToolDefinition {
    /// A definition without the bounds of values, which cost tokens. Errors of calls name them.
    pub fn concise(spec: ToolSpec) -> Self {
        let schema = without_bounds(&spec.parameters).to_string();
        Self::rendered(spec, schema)
    }

    fn rendered(spec: ToolSpec, schema: String) -> Self {
        let texts: [&str; 3] = [&spec.name, &spec.description, &schema];
        let (letters, bytes) = (CharacterCounts::of(&texts), texts.iter().map(|text| text.len()).sum());
        let quoted = |text: &str| Value::from(text).to_string();
        let introduction =
            format!("\"name\":{},\"description\":{}", quoted(&spec.name), quoted(&spec.description));
        Self(Arc::new(Told { spec, introduction, schema, letters, bytes, strict: None, examples: None }))
    }

    /// The same definition, which says whether the provider must enforce the schema.
    #[must_use]
    pub fn with_strict(self, strict: Option<bool>) -> Self {
        let mut told = Arc::unwrap_or_clone(self.0);
        told.strict = strict;
        Self(Arc::new(told))
    }

    /// The same definition with examples of arguments, a JSON list.
    #[must_use]
    pub fn with_examples(self, examples: String) -> Self {
        let mut told = Arc::unwrap_or_clone(self.0);
        told.letters =
            CharacterCounts::of(&[&told.spec.name, &told.spec.description, &told.schema, &examples]);
        told.bytes = told.bytes.saturating_add(examples.len());
        told.examples = Some(examples);
        Self(Arc::new(told))
    }
}

impl From<ToolSpec> for ToolDefinition {
    fn from(spec: ToolSpec) -> Self {
        let schema = spec.parameters.to_string();
        Self::rendered(spec, schema)
    }
}

/// Keywords that bound a value, and its default.
const BOUNDS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "additionalProperties",
    "default",
];

/// The schema without bounds and defaults.
fn without_bounds(schema: &Value) -> Value {
    let Value::Object(keywords) = schema else { return schema.clone() };
    let keep = |(keyword, value): (&String, &Value)| {
        let kept = match (keyword.as_str(), value) {
            // Its keys are names of parameters.
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, value)| (name.clone(), without_bounds(value))).collect()
            }
            ("items", items) => without_bounds(items),
            _ if BOUNDS.contains(&keyword.as_str()) => return None,
            _ => value.clone(),
        };
        Some((keyword.clone(), kept))
    };
    keywords.iter().filter_map(keep).collect()
}

impl Deref for ToolDefinition {
    type Target = ToolSpec;

    fn deref(&self) -> &ToolSpec {
        &self.0.spec
    }
}

impl PartialEq for ToolDefinition {
    fn eq(&self, other: &Self) -> bool {
        self.0.spec == other.0.spec
    }
}

/// Other names of a tool. Models never see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aliases {
    /// Of the tool, reserved for it. Calls and a job's tool list may use them.
    pub names: &'static [&'static str],
    /// Its names in other systems. Calls may use them while no tool has that name.
    pub foreign: &'static [&'static str],
    /// Of its parameters: the other name, then the name in the schema.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// Side effects of a tool. The default is the cautious one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// Running it twice equals running it once, so it is repeated after a crash (P3).
    pub idempotent: bool,
    /// A pure read: an earlier result may be reused for a while, until something that it reads is written.
    pub cacheable: bool,
    /// How it uses the project's files.
    pub files: FileAccess,
}

impl ToolTraits {
    /// The result depends on the arguments only.
    pub const PURE: Self = Self { idempotent: true, cacheable: true, files: FileAccess::None };
    /// Changes nothing, but what it reads may change.
    pub const READ: Self = Self { idempotent: true, cacheable: false, files: FileAccess::None };
}

/// The work that a call starts outside its own job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolReach {
    /// Nothing.
    #[default]
    Here,
    /// Sub-agents within the call. They need a job that records their steps and cost, and start no others.
    Agents,
    /// New jobs, now or later. Jobs made this way cannot make further ones.
    HandsIn,
    /// Messages to people. Sub-agents leave these to their job.
    Speaks,
}

/// A set of tools that requests and the configuration may name like a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolGroup {
    /// The job's files.
    Files,
    /// Searching and reading the web.
    Web,
    /// Running programs and commands.
    Code,
    /// Sub-agents, background jobs and schedules.
    Agents,
    /// The operator's own tools: commands and JavaScript files.
    Custom,
    /// Tools of MCP servers.
    Mcp,
}

impl ToolGroup {
    /// Name in requests and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Web => "web",
            Self::Code => "code",
            Self::Agents => "agents",
            Self::Custom => "custom",
            Self::Mcp => "mcp",
        }
    }
}

/// How a tool uses the project's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// Not at all.
    None,
    /// Reads: within a batch it waits for earlier writes, and a write invalidates its cached results.
    Reads,
    /// Writes: within a batch it waits for earlier reads and writes.
    Writes,
    /// Runs programs that may read and write any project file: waits for file reads and writes, runs beside
    /// other programs, and invalidates cached results.
    #[default]
    Runs,
}

/// Origin of a tool.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolOrigin {
    /// Built into the server.
    BuiltIn,
    /// A JavaScript file of `tools_dir`.
    JavaScript {
        /// File name.
        file: String,
    },
    /// Configured under `tools:`.
    Command,
    /// Provided by an MCP server.
    Mcp {
        /// Name of the server in the configuration.
        server: String,
    },
}

/// Tools that a job offers to its model.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// `true` for all, `false` for none.
    All(bool),
    /// Exactly these tools, and the tools of these groups.
    Named(Vec<String>),
    /// The default set: of the configuration, else the built-in one. A model may call the other tools, too,
    /// but does not see their definitions.
    #[default]
    Default,
}

impl ToolChoice {
    /// Stands in a list for all tools that can be offered without their names.
    pub const EVERY_GROUP: &'static str = "all";
    /// Stands in a list for the default set.
    pub const DEFAULT_GROUP: &'static str = "default";

    /// The names of groups that a list may contain.
    pub const GROUPS: [&'static str; 8] = [
        ToolGroup::Files.name(),
        ToolGroup::Web.name(),
        ToolGroup::Code.name(),
        ToolGroup::Agents.name(),
        ToolGroup::Custom.name(),
        ToolGroup::Mcp.name(),
        Self::EVERY_GROUP,
        Self::DEFAULT_GROUP,
    ];

    /// Whether a list may contain this name as a group.
    pub fn is_group(name: &str) -> bool {
        Self::GROUPS.contains(&name)
    }

    /// Exactly these tools. A tool that has the name of a group cannot be named alone: it is left out.
    pub fn of_tools(names: impl IntoIterator<Item = String>) -> Self {
        let names: Vec<String> = names.into_iter().filter(|name| !Self::is_group(name)).collect();
        if names.is_empty() { Self::All(false) } else { Self::Named(names) }
    }

    /// Whether it is the default set.
    pub fn is_default(&self) -> bool {
        *self == Self::Default
    }

    /// Whether any tool is offered.
    pub fn offers_any(&self) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => !names.is_empty(),
            Self::Default => true,
        }
    }

    /// Whether the tool or group of this name may run.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|n| n == name),
            Self::Default => true,
        }
    }
}

/// Sandbox level for code. The order is from the strictest to the most lenient.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// Pure computation with a short module list, 5 s.
    Strict,
    /// Pure computation with a wide module list, 10 s.
    Standard,
    /// The complete standard library and a private directory, 30 s.
    Lenient,
}

impl Strictness {
    /// Every level, the strictest first.
    pub const ALL: [Self; 3] = [Self::Strict, Self::Standard, Self::Lenient];

    /// Name in requests and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Standard => "standard",
            Self::Lenient => "lenient",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_concise_definition_has_no_bounds_and_keeps_its_specification() {
        let item = json!({"type": "object", "properties": {"default": {"type": "string", "minLength": 1}},
                          "required": ["default"], "additionalProperties": false});
        let parameters = json!({
            "type": "object",
            "properties": {
                "minimum": {"type": "integer", "minimum": 1, "maximum": 9, "description": "A number"},
                "mode": {"type": "string", "enum": ["a", "b"], "default": "a"},
                "tasks": {"type": "array", "minItems": 1, "items": item},
            },
            "required": ["minimum"],
            "additionalProperties": false,
        });
        let spec = ToolSpec { name: "t".into(), description: "d".into(), parameters };
        let concise = ToolDefinition::concise(spec.clone());
        let item =
            json!({"type": "object", "properties": {"default": {"type": "string"}}, "required": ["default"]});
        let expected = json!({
            "type": "object",
            "properties": {
                "minimum": {"type": "integer", "description": "A number"},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "tasks": {"type": "array", "items": item},
            },
            "required": ["minimum"],
        });
        assert_eq!(serde_json::from_str::<Value>(concise.schema()).expect("JSON"), expected);
        assert_eq!(*concise, spec);
        assert!(concise.bytes() < ToolDefinition::from(spec).bytes());
    }

    #[test]
    fn the_default_choice_of_tools_is_stored_as_null_and_older_values_are_read() {
        for (choice, text) in [
            (ToolChoice::Default, "null"),
            (ToolChoice::All(true), "true"),
            (ToolChoice::Named(vec!["files".to_owned()]), "[\"files\"]"),
        ] {
            assert_eq!(serde_json::to_string(&choice).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<ToolChoice>(text).expect("a choice"), choice);
        }
    }
}
