//! The description that a tool file exports. The file runs once, without permissions, to report it.

use super::error::ToolFileError;
use super::permission::{FilePermission, ToolPermissions};
use super::program::ToolScript;
use crate::ports::CancelToken;
use crate::tools::code::{CodeRunner, RunCaller};
use crate::tools::custom::options::{
    BadTool, MAX_TIMEOUT_S, NOT_CACHEABLE, bad_description, bad_name, bad_parameters,
};
use nanoclaw_sandbox::{HostCalls, Language, Level, Program, RunStatus};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// The default of `timeout_s`.
const TIMEOUT_S: u64 = 30;
/// The time limit of the run that reports the description.
const DESCRIBE_MS: u64 = 2_000;

/// A checked description.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolDescription {
    /// The name for models.
    #[serde(default)]
    pub(super) name: String,
    /// The description for models.
    #[serde(default)]
    pub(super) description: String,
    /// JSON Schema of its arguments.
    #[serde(default = "no_parameters")]
    pub(super) parameters: Value,
    /// The permissions of its handler.
    #[serde(default)]
    pub(super) permissions: ToolPermissions,
    /// Its wall clock, seconds.
    #[serde(default = "default_timeout_s")]
    pub(super) timeout_s: u64,
    /// Running it twice is the same as running it once.
    #[serde(default)]
    pub(super) idempotent: bool,
    /// It is a pure read.
    #[serde(default)]
    pub(super) cacheable: bool,
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

fn default_timeout_s() -> u64 {
    TIMEOUT_S
}

/// Receives the description.
#[derive(Default)]
struct DescribeHost(Mutex<Option<String>>);

impl HostCalls for DescribeHost {
    fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        if name != "describe" {
            return Err(format!("host.{name} is there for the handler alone"));
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(arguments.to_owned());
        Ok("null".to_owned())
    }
}

impl ToolDescription {
    /// Runs the file and reads its description.
    pub(super) fn of(
        source: &ToolScript,
        code: &dyn CodeRunner,
        cancel: &CancelToken,
    ) -> Result<Self, ToolFileError> {
        let receiver = Arc::new(DescribeHost::default());
        let program = Program {
            timeout_ms: Some(DESCRIBE_MS),
            ..Program::new(Language::JavaScript, Level::Strict, source.describe_program())
        };
        let host: Arc<dyn HostCalls> = Arc::<DescribeHost>::clone(&receiver);
        let record = code.run_with_host(&program, host, RunCaller { user: None, cancel });
        if record.status != RunStatus::Ok {
            let message = record.error.unwrap_or_else(|| record.status.to_string());
            let is_cancelled = record.limit.as_deref() == Some("cancelled");
            return Err(match record.status {
                RunStatus::SandboxError => ToolFileError::Unavailable(message),
                RunStatus::Timeout if is_cancelled => ToolFileError::Unavailable(message),
                RunStatus::Timeout => ToolFileError::TimedOut(message),
                _ => ToolFileError::NoDescription(message),
            });
        }
        let text = receiver.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let text = text.ok_or_else(|| ToolFileError::NoDescription("it reported nothing".to_owned()))?;
        let description: Self =
            serde_json::from_str(&text).map_err(|error| ToolFileError::NoDescription(error.to_string()))?;
        description.check()?;
        Ok(description)
    }

    fn check(&self) -> Result<(), BadTool> {
        let is_timeout_valid = (1..=MAX_TIMEOUT_S).contains(&self.timeout_s);
        let timeout = (!is_timeout_valid)
            .then(|| BadTool { key: "timeout_s", allowed: format!("must be from 1 to {MAX_TIMEOUT_S}") });
        let is_cached_file_use = self.cacheable && self.permissions.files != FilePermission::None;
        let faults = [
            bad_name(&self.name),
            bad_description(&self.description),
            bad_parameters(&self.parameters),
            timeout,
            self.permissions.fault(),
            is_cached_file_use.then(|| BadTool { key: "cacheable", allowed: NOT_CACHEABLE.to_owned() }),
        ];
        faults.into_iter().flatten().next().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_with_file_access_cannot_be_cacheable() {
        for (files, fault) in [("none", None), ("read", Some("cacheable")), ("write", Some("cacheable"))] {
            let description_json = json!({
                "name": "notes", "description": "Reads notes.", "cacheable": true, "permissions": {"files": files},
            });
            let description: ToolDescription = serde_json::from_value(description_json).expect("the form");
            assert_eq!(description.check().err().map(|bad| bad.key), fault, "{files}");
        }
    }
}
