//! Tool calls, definitions and traits. No tool is known by name here (P6).

use super::characters::CharacterCounts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

#[derive(Debug)]
struct Told {
    spec: ToolSpec,
    /// `"name":…,"description":…`
    introduction: String,
    schema: String,
    letters: CharacterCounts,
    bytes: usize,
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
}

impl From<ToolSpec> for ToolDefinition {
    fn from(spec: ToolSpec) -> Self {
        let schema = spec.parameters.to_string();
        let texts: [&str; 3] = [&spec.name, &spec.description, &schema];
        let (letters, bytes) = (CharacterCounts::of(&texts), texts.iter().map(|text| text.len()).sum());
        let quoted = |text: &str| Value::from(text).to_string();
        let introduction =
            format!("\"name\":{},\"description\":{}", quoted(&spec.name), quoted(&spec.description));
        Self(Arc::new(Told { spec, introduction, schema, letters, bytes }))
    }
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

/// Other names of a tool. Calls and a job's tool list may use them; models never see them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aliases {
    /// Of the tool.
    pub names: &'static [&'static str],
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// `true` for all, `false` for none.
    All(bool),
    /// Exactly these.
    Named(Vec<String>),
}

impl ToolChoice {
    /// Whether any tool is offered.
    pub fn offers_any(&self) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => !names.is_empty(),
        }
    }

    /// Whether the tool of this name is offered and may run.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All(all) => *all,
            Self::Named(names) => names.iter().any(|n| n == name),
        }
    }
}

/// Sandbox level for code.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strictness {
    /// Pure computation with a short module list, 5 s.
    Strict,
    /// Pure computation with a wide module list, 10 s.
    Standard,
    /// The complete standard library and a private directory, 30 s.
    Lenient,
}
