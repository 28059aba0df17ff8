//! The two choices that a caller makes for a run: how strict, and in which language.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How much a program may do. SANDBOX.md's table is the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Pure computation on a short module list.
    Strict,
    /// The default: the common, harmless part of the standard library, no files.
    Standard,
    /// The full standard library, threads, and a private directory.
    Lenient,
    /// Shell commands alone: processes, and the system's programs. No strictness that a call could name.
    Shell,
}

impl Level {
    /// Every level, from the tightest on.
    pub const ALL: [Self; 4] = [Self::Strict, Self::Standard, Self::Lenient, Self::Shell];
    /// The levels of Python and JavaScript: what a call may name as its strictness.
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

    /// The oldest landlock ABI on which this level is provably tight.
    ///
    /// The first does at every level: what later ones add (truncation, TCP, devices, signals), the filters refuse below
    /// them, and the self-test tries it.
    pub const fn minimum_landlock_abi(self) -> u32 {
        match self {
            Self::Strict | Self::Standard | Self::Lenient | Self::Shell => 1,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The languages that the sandbox runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// The host's `CPython`, 3.9 or newer.
    Python,
    /// The built-in `QuickJS`.
    JavaScript,
    /// A command line for the host's `bash`, or its `sh` where there is none. At [`Level::Shell`] alone.
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
