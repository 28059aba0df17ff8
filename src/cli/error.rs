//! What a command tells its user when it fails: one line of what, one line of what to do, an exit code.

use serde_json::{Value, json};
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit codes (DESIGN §9; 78 is `EX_CONFIG` of sysexits.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exit {
    /// Nobody reads on.
    Enough = 0,
    /// It was tried and did not work.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The configuration makes no sense.
    Config = 78,
}

/// A command's failure.
#[derive(Debug)]
pub(super) struct CliError {
    message: String,
    hint: Option<String>,
    exit: Exit,
}

impl CliError {
    /// It did not work.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Failed }
    }

    /// The command line makes no sense.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Usage }
    }

    /// The configuration makes no sense.
    pub(super) fn config(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Config }
    }

    /// Adds what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// What happened, in one line.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it, where that is known.
    pub(super) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// For programs: `{"error": {"message", "hint"}}`.
    pub(super) fn to_json(&self) -> Value {
        json!({"error": {"message": self.message, "hint": self.hint}})
    }

    /// Whether there is anything to tell.
    pub(super) fn is_silent(&self) -> bool {
        self.exit == Exit::Enough
    }

    /// For the process.
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

/// Writing to the terminal or into a pipe failed. A reader that has gone (`| head`) has seen enough: no failure.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { message: String::new(), hint: None, exit: Exit::Enough };
        }
        Self::failed(format!("cannot write the output: {error}")).hint("is the disk full?")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_and_its_hint_the_next() {
        let error = CliError::config("unknown key 'lisen'").hint("did you mean 'listen'?");
        assert_eq!(error.to_string(), "nanoclaw: unknown key 'lisen'\nhint: did you mean 'listen'?");
        assert_eq!(error.exit as u8, 78);
        let told = r#"{"error":{"message":"unknown key 'lisen'","hint":"did you mean 'listen'?"}}"#;
        assert_eq!(error.to_json().to_string(), told);
    }
}
