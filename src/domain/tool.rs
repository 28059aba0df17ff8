//! What a tool call is, and what a tool says of itself. Refuses to know any tool by name (P6).

use super::tokens::CharacterCounts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

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
    pub name: Cow<'static, str>,
    /// For the model: what it does and when to use it.
    pub description: Cow<'static, str>,
    /// JSON Schema of the arguments, an object schema.
    pub parameters: Value,
}

/// A tool on offer: what models are told, and how much that is. Copies share it, because every call to a model is told of
/// every tool.
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
    /// The characters of all that is told.
    pub fn letters(&self) -> CharacterCounts {
        self.0.letters
    }

    /// Bytes of all that is told.
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The name and the description as fields of a JSON object, without its braces.
    pub fn introduction(&self) -> &str {
        &self.0.introduction
    }

    /// The parameters' schema as JSON.
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

/// Other names under which a tool is known: taken in calls and in a job's list of tools, never offered to a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aliases {
    /// Of the tool.
    pub names: &'static [&'static str],
    /// Of its parameters: the other name, and the one in the schema.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// What a tool's runs may do to the world. The default is the careful one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolTraits {
    /// Running it twice is the same as running it once: it is rerun when a crash cut it off (P3).
    pub idempotent: bool,
    /// A pure read: an earlier result may stand for a new one, for a while and until something that it reads is written.
    pub cacheable: bool,
    /// What it does with the files of the job's project.
    pub files: FileAccess,
}

impl ToolTraits {
    /// Its result follows from its arguments alone.
    pub const PURE: Self = Self { idempotent: true, cacheable: true, files: FileAccess::None };
    /// It changes nothing, but what it reads may change.
    pub const READ: Self = Self { idempotent: true, cacheable: false, files: FileAccess::None };
}

/// What a tool's runs set going beyond their own job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolReach {
    /// Nothing.
    #[default]
    Here,
    /// Agents that work for the call: they need a job that tells and pays what they do, and start no others.
    Agents,
    /// Jobs of their own, now or later: they take over from a job, and hand in no others.
    HandsIn,
    /// Words to people: an agent that works for a job leaves them to the job.
    Speaks,
}

/// What a tool does with the files of the job's project.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// It never touches them.
    None,
    /// It reads them: within a batch it waits for the writes before it, and nothing cached outlives a write.
    Reads,
    /// It writes them: within a batch it waits for the reads and writes before it.
    Writes,
    /// It runs what may read and write anything in the project: in turn with what reads and writes files, beside others of
    /// its kind. What is cached does not outlive it.
    #[default]
    Runs,
}

/// Where a tool comes from.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToolOrigin {
    /// Part of the server.
    BuiltIn,
    /// A file of `tools_dir`.
    JavaScript {
        /// Its name.
        file: String,
    },
    /// Declared under `tools:`.
    Command,
    /// An MCP server's.
    Mcp {
        /// The server's name in the configuration.
        server: String,
    },
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
