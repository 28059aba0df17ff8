//! `tools:` of the configuration, and the rules for every operator's tool.

use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Characters of a description: every request to a model carries it.
const DESCRIPTION_CHARS: usize = 4_000;
/// Bytes of a schema, for the same reason.
const PARAMETERS_BYTES: usize = 32 * 1024;
/// The error of `cacheable` for a tool that uses project files.
pub(super) const NOT_CACHEABLE: &str = "cannot be set for a tool that works in a project: its files change";
/// The largest `timeout_s`. `code_execution.max_timeout_ms` limits it further.
pub(super) const MAX_TIMEOUT_S: u64 = 600;
/// The longest name that providers accept.
const NAME_CHARS: usize = 64;

/// A command that is a tool: JSON on its standard input, JSON on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CommandToolOptions {
    /// The name for models.
    pub name: String,
    /// The description for models: what the tool does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments, an object schema.
    pub parameters: Value,
    /// A command line for bash.
    pub command: String,
    /// Its time limit.
    pub timeout_s: u64,
    /// Whether it runs in the project directory of the job. Otherwise it gets a private directory.
    pub in_project: bool,
    /// Whether two runs equal one run: it is repeated after a crash.
    pub idempotent: bool,
    /// Whether an earlier result may be reused: it is a pure read.
    pub cacheable: bool,
    /// Its environment variables. The values are secrets.
    pub env: BTreeMap<String, Secret>,
}

impl Default for CommandToolOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {}}),
            command: String::new(),
            timeout_s: 60,
            in_project: false,
            idempotent: false,
            cacheable: false,
            env: BTreeMap::new(),
        }
    }
}

/// An invalid option of a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} {allowed}")]
pub struct BadTool {
    /// The key.
    pub key: &'static str,
    /// The allowed values.
    pub allowed: String,
}

impl CommandToolOptions {
    /// The secrets, which logs and results must not contain.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.env.values()
    }

    /// Every invalid value.
    pub fn faults(&self) -> Vec<BadTool> {
        let command = self.command.trim().is_empty().then(|| bad("command", "is needed: a command line"));
        let is_timeout_valid = (1..=MAX_TIMEOUT_S).contains(&self.timeout_s);
        let timeout =
            (!is_timeout_valid).then(|| bad("timeout_s", &format!("must be from 1 to {MAX_TIMEOUT_S}")));
        let is_variable_name = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        };
        let env = self.env.keys().find(|name| !is_variable_name(name));
        let env = env.map(|name| bad("env", &format!("'{name}' cannot be the name of a variable")));
        let cached = (self.cacheable && self.in_project).then(|| bad("cacheable", NOT_CACHEABLE));
        [
            bad_name(&self.name),
            bad_description(&self.description),
            bad_parameters(&self.parameters),
            command,
            timeout,
            env,
            cached,
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

fn bad(key: &'static str, allowed: &str) -> BadTool {
    BadTool { key, allowed: allowed.to_owned() }
}

/// The fault of a name.
pub(super) fn bad_name(name: &str) -> Option<BadTool> {
    let starts_valid = name.starts_with(|c: char| c.is_ascii_lowercase());
    let has_valid_chars = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let is_reserved = name.starts_with("mcp_");
    let is_valid = starts_valid && has_valid_chars && !is_reserved && name.len() <= NAME_CHARS;
    let rule = format!(
        "must be 1 to {NAME_CHARS} lower-case letters, digits and '_', beginning with a letter and not with 'mcp_'"
    );
    (!is_valid).then_some(BadTool { key: "name", allowed: rule })
}

/// The fault of a description.
pub(super) fn bad_description(text: &str) -> Option<BadTool> {
    let is_valid = !text.trim().is_empty() && text.chars().count() <= DESCRIPTION_CHARS;
    let rule =
        format!("must say in 1 to {DESCRIPTION_CHARS} characters what the tool does and when to use it");
    (!is_valid).then_some(BadTool { key: "description", allowed: rule })
}

/// The fault of a schema, without compiling it.
pub(super) fn bad_parameters(schema: &Value) -> Option<BadTool> {
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    let is_valid = schema.to_string().len() <= PARAMETERS_BYTES;
    let rule =
        format!("must be a JSON Schema with \"type\": \"object\", of at most {PARAMETERS_BYTES} bytes");
    (!is_object || !is_valid).then_some(BadTool { key: "parameters", allowed: rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn valid_options() -> CommandToolOptions {
        CommandToolOptions {
            name: "word_count".into(),
            description: "Counts words.".into(),
            command: "wc -w".into(),
            ..CommandToolOptions::default()
        }
    }

    #[test]
    fn invalid_command_tool_options_are_reported() {
        assert_eq!(valid_options().faults(), []);
        let cases: [(&str, CommandToolOptions); 9] = [
            ("name", CommandToolOptions { name: "Word".into(), ..valid_options() }),
            ("name", CommandToolOptions { name: "mcp_x".into(), ..valid_options() }),
            ("name", CommandToolOptions { name: "x".repeat(65), ..valid_options() }),
            ("description", CommandToolOptions { description: " ".into(), ..valid_options() }),
            ("parameters", CommandToolOptions { parameters: json!({"type": "string"}), ..valid_options() }),
            ("command", CommandToolOptions { command: " ".into(), ..valid_options() }),
            ("timeout_s", CommandToolOptions { timeout_s: 0, ..valid_options() }),
            (
                "env",
                CommandToolOptions { env: [("A=B".into(), Secret::default())].into(), ..valid_options() },
            ),
            ("cacheable", CommandToolOptions { cacheable: true, in_project: true, ..valid_options() }),
        ];
        for (key, options) in cases {
            assert_eq!(options.faults().iter().map(|bad| bad.key).collect::<Vec<_>>(), [key], "{options:?}");
        }
    }
}
