//! What is wrong with a configuration, in words that lead to its repair: the key, the value, what is allowed.

use std::fmt;
use std::path::PathBuf;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file that was asked for cannot be read.
    #[error("cannot read configuration '{}': {reason}", .path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// The operating system's word.
        reason: String,
    },
    /// The file may be there, and is not this user's to read. To go on without it would be to open another store.
    #[error("cannot read configuration '{}': permission denied", .path.display())]
    Denied {
        /// Which.
        path: PathBuf,
    },
    /// The file is not YAML or TOML.
    #[error("configuration '{}' is not valid {format}: {reason}", .path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// What it should be.
        format: &'static str,
        /// Where and why.
        reason: String,
    },
    /// A string names a variable that the environment does not have.
    #[error(
        "{key}: the environment variable '{variable}' is not set ({origin}); write '$$' for a plain dollar sign"
    )]
    Unset {
        /// The key with the string.
        key: String,
        /// The variable.
        variable: String,
        /// Where it was read.
        origin: String,
    },
    /// A `${` without its `}`, or with something else than a name in it.
    #[error(
        "{key}: '{text}' is not a variable ({origin}); write '${{NAME}}', or '$$' for a plain dollar sign"
    )]
    Dollar {
        /// The key with the string.
        key: String,
        /// From the dollar sign on.
        text: String,
        /// Where it was read.
        origin: String,
    },
    /// A key that does not exist.
    #[error("unknown key '{key}' ({origin}){meant}")]
    UnknownKey {
        /// As written.
        key: String,
        /// Where it was read.
        origin: String,
        /// `; did you mean …`, or nothing.
        meant: String,
    },
    /// A value of the wrong type, or no value where one is needed.
    #[error("{key}: {reason} ({origin})")]
    Type {
        /// The key.
        key: String,
        /// What was found and what was expected.
        reason: String,
        /// Where it was read.
        origin: String,
    },
    /// Values that are not allowed.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

/// One value that is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// What was found.
    pub value: String,
    /// What would be right.
    pub allowed: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: '{}' is not allowed: {}", self.key, self.value, self.allowed)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
