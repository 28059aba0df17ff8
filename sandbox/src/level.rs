//! The levels and languages of programs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The permissions of a program. The table in SANDBOX.md is the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Pure computation with a short list of modules.
    Strict,
    /// The default: the common, harmless part of the standard library, without files.
    Standard,
    /// The full standard library, threads, and a private directory.
    Lenient,
    /// For shell commands only: processes, and the system's programs. A call cannot choose it as its
    /// strictness.
    Shell,
}

impl Level {
    /// Every level, the strictest first.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Standard, Self::Lenient, Self::Shell];
    /// The levels of Python and JavaScript, which a call may choose as its strictness.
    pub const FOR_CODE: [Self; 3] = [Self::Strict, Self::Standard, Self::Lenient];

    /// The name used in configuration, messages and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Standard => "standard",
            Self::Lenient => "lenient",
            Self::Shell => "shell",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The languages of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// The host's `CPython`, 3.9 or newer.
    Python,
    /// The built-in `QuickJS`.
    JavaScript,
    /// A command line for the host's `bash`, or its `sh` if it has no `bash`. Runs only at [`Level::Shell`].
    Bash,
}

impl Language {
    /// The name used in messages and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::Bash => "bash",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
