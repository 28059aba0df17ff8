//! `bash:` of the configuration: its keys and their checks.

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

/// Rules for commands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BashOptions {
    /// Regular expressions without case. A segment that contains a match is refused, besides the built-in
    /// rules.
    pub deny_patterns: Vec<String>,
    /// Regular expressions. A segment that one matches as a whole is exempt from every rule. If there are
    /// any, each segment must match one.
    pub allow_patterns: Vec<String>,
    /// Variables of the server's environment that commands get.
    pub allowed_env: Vec<String>,
}

/// An invalid value of `bash:`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bash.{key}: '{value}' {allowed}")]
pub struct BadBashOption {
    /// The key below `bash`, with its place in the list.
    pub key: String,
    /// The value.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl BashOptions {
    /// Every invalid value.
    pub fn faults(&self) -> Vec<BadBashOption> {
        let deny = self
            .deny_patterns
            .iter()
            .enumerate()
            .map(|(at, pattern)| compile_deny_pattern(at, pattern).err());
        let allow = self
            .allow_patterns
            .iter()
            .enumerate()
            .map(|(at, pattern)| compile_allow_pattern(at, pattern).err());
        let names = self.allowed_env.iter().enumerate().map(|(at, name)| variable(at, name));
        deny.chain(allow).chain(names).flatten().collect()
    }
}

/// A deny pattern, ready for use.
pub(super) fn compile_deny_pattern(at: usize, pattern: &str) -> Result<Regex, BadBashOption> {
    let compiled = RegexBuilder::new(pattern).case_insensitive(true).build();
    compiled.map_err(|error| bad(format!("deny_patterns[{at}]"), pattern, &error))
}

/// An allow pattern, ready for use: it matches whole segments only.
pub(super) fn compile_allow_pattern(at: usize, pattern: &str) -> Result<Regex, BadBashOption> {
    // Alone first: the added group must not make `a)|(b` valid.
    let compiled = Regex::new(pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
    compiled.map_err(|error| bad(format!("allow_patterns[{at}]"), pattern, &error))
}

fn bad(key: String, pattern: &str, error: &regex::Error) -> BadBashOption {
    let text = error.to_string();
    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    BadBashOption {
        key,
        value: pattern.to_owned(),
        allowed: format!("must be a regular expression: {reason}"),
    }
}

fn variable(at: usize, name: &str) -> Option<BadBashOption> {
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let allowed = "must be the name of an environment variable, without '$' and value".to_owned();
    (!is_name).then(|| BadBashOption { key: format!("allowed_env[{at}]"), value: name.to_owned(), allowed })
}
