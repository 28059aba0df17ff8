//! The error of a command: what happened, what to do, and an exit code.

use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit codes (DESIGN §9; 65 is `EX_DATAERR` and 78 `EX_CONFIG` of sysexits.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// The reader of the output has closed it.
    OutputClosed = 0,
    /// The command did not succeed.
    Failed = 1,
    /// The arguments are invalid.
    Usage = 2,
    /// The store is damaged: [`crate::store::DAMAGED_EXIT`].
    Damaged = 65,
    /// The configuration is invalid.
    Config = 78,
}

#[derive(Debug)]
pub(super) struct CliError {
    message: String,
    hint: Option<String>,
    exit: Exit,
}

impl CliError {
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Failed }
    }

    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Usage }
    }

    pub(super) fn config(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Config }
    }

    pub(super) fn damaged(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Damaged }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    pub(super) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// For programs: `{"error": {"message", "hint"}}`.
    pub(super) fn to_json(&self) -> Value {
        json!({"error": {"message": self.message, "hint": self.hint}})
    }

    /// Whether nothing is to be printed.
    pub(super) fn is_silent(&self) -> bool {
        self.exit == Exit::OutputClosed
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit as u8)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nanoclaw: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Writing the output failed. A closed pipe (`| head`) is a success.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), hint: None, exit: Exit::OutputClosed };
        }
        Self::failed(format!("cannot write the output: {error}")).hint("is the disk full?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_prints_one_line_and_its_hint_on_the_next() {
        let error = CliError::config("unknown key 'lisen'").hint("did you mean 'listen'?");
        assert_eq!(error.to_string(), "nanoclaw: unknown key 'lisen'\nhint: did you mean 'listen'?");
        assert_eq!(error.exit as u8, 78);
        let json = r#"{"error":{"message":"unknown key 'lisen'","hint":"did you mean 'listen'?"}}"#;
        assert_eq!(error.to_json().to_string(), json);
    }
}
