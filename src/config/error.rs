//! Configuration errors. Each names the key, the value and the allowed values.

use std::fmt;
use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The named file cannot be read.
    #[error("cannot read configuration '{}': {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// This user may not read the file. Continuing without it could open another store.
    #[error("cannot read configuration '{}': permission denied", .path.display())]
    Denied {
        /// The file.
        path: PathBuf,
    },
    /// The file is not valid YAML or TOML.
    #[error("configuration '{}' is not valid {format}: {reason}", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// `YAML` or `TOML`.
        format: &'static str,
        /// Where and why.
        reason: String,
    },
    /// A string names a variable that is not set.
    #[error(
        "{key}: the environment variable '{variable}' is not set ({origin}); write '$$' for a plain dollar sign"
    )]
    Unset {
        /// The key with the string.
        key: String,
        /// The variable.
        variable: String,
        /// The layer that contains it.
        origin: String,
    },
    /// A `$` that is not followed by a variable name.
    #[error(
        "{key}: '{text}' is not a variable ({origin}); write '${{NAME}}', or '$$' for a plain dollar sign"
    )]
    Dollar {
        /// The key with the string.
        key: String,
        /// From the dollar sign on.
        text: String,
        /// The layer that contains it.
        origin: String,
    },
    /// A key that does not exist.
    #[error("unknown key '{key}' ({origin}){suggestion}")]
    UnknownKey {
        /// As written.
        key: String,
        /// The layer that contains it.
        origin: String,
        /// `; did you mean …`, or nothing.
        suggestion: String,
    },
    /// A value of the wrong type, or a missing one.
    #[error("{key}: {reason} ({origin})")]
    Type {
        /// The key.
        key: String,
        /// What was found and what was expected.
        reason: String,
        /// The layer that contains it.
        origin: String,
    },
    /// Values that are not allowed.
    #[error("{}", lines(.0))]
    Invalid(Vec<ConfigProblem>),
}

/// A value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigProblem {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: '{}' is not allowed: {}", self.key, self.value, self.allowed)
    }
}

fn lines(problems: &[ConfigProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
