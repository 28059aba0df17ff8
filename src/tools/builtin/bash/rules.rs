//! The operator's patterns, compiled once, and the environment variables that commands get.

use super::options::{BadBashOption, BashOptions, compile_allow_pattern, compile_deny_pattern};
use super::refusal::{Patterns, Reason};
use regex::Regex;

/// The compiled rules for commands.
#[derive(Debug, Clone)]
pub struct BashRules {
    deny: Vec<Regex>,
    allow: Vec<Regex>,
    /// The patterns of `allow`, for messages.
    allow_list: Patterns,
    variables: Vec<String>,
    environment: fn(&str) -> Option<String>,
}

impl BashRules {
    /// Compiles the options. `environment` returns a variable of the server and is called for each command.
    pub fn new(
        options: &BashOptions,
        environment: fn(&str) -> Option<String>,
    ) -> Result<Self, BadBashOption> {
        let compile = |patterns: &[String], compile_one: fn(usize, &str) -> Result<Regex, BadBashOption>| {
            patterns
                .iter()
                .enumerate()
                .map(|(index, pattern)| compile_one(index, pattern))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            deny: compile(&options.deny_patterns, compile_deny_pattern)?,
            allow: compile(&options.allow_patterns, compile_allow_pattern)?,
            allow_list: Patterns(options.allow_patterns.clone()),
            variables: options.allowed_env.clone(),
            environment,
        })
    }

    /// The current environment of commands, without unset variables.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let value = |name: &String| Some((name.clone(), (self.environment)(name)?));
        self.variables.iter().filter_map(value).collect()
    }

    /// Whether the segment is exempt from every rule. An error if there are allow patterns and none matches.
    pub(super) fn exempts(&self, segment: &str) -> Result<bool, Reason> {
        if self.allow.is_empty() || self.allow.iter().any(|pattern| pattern.is_match(segment)) {
            return Ok(!self.allow.is_empty());
        }
        Err(Reason::NotAllowed(self.allow_list.clone()))
    }

    /// The first deny pattern that is found in one of the spellings.
    pub(super) fn denies(&self, spellings: &[&str]) -> Option<Reason> {
        let found = self.deny.iter().find(|pattern| spellings.iter().any(|text| pattern.is_match(text)))?;
        Some(Reason::Pattern(found.as_str().to_owned()))
    }
}
