//! What the composition root decides about the sandbox; the configuration nests this struct.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::limits::Levels;

/// The sandbox's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// The level of a call that names none.
    pub default_strictness: Level,
    /// The most lenient level that any call may have; none means that all are allowed. Shell commands count as lenient.
    pub max_strictness_allowed: Option<Level>,
    /// Limits per level.
    pub levels: Levels,
    /// Python modules allowed beyond the built-in lists (`numpy`, say); the host's site-packages must have them.
    pub extra_allowed_modules: ExtraModules,
    /// Whether commands may use the network. Off, they have no sockets at all.
    pub shell_network: bool,
    /// Whether lenient programs may reach public addresses. Refused where it is on: landlock knows ports but no addresses,
    /// and a system call filter does not see them, so that no kernel of today can enforce it.
    pub lenient_network: bool,
    /// The Python interpreter; none means the first fitting `python3` of `$PATH` and the usual directories.
    pub python: Option<PathBuf>,
    /// Programs running at once; more wait for their turn, and waiting does not count as running time.
    pub max_parallel: usize,
    /// The longest wall clock that a single call may ask for.
    pub max_timeout_ms: u64,
    /// Where private directories of lenient runs are made.
    pub scratch_dir: PathBuf,
    /// The binary that becomes the child: it must call [`child_hook`](crate::child_hook) first thing in `main`.
    pub child_exe: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            default_strictness: Level::Standard,
            max_strictness_allowed: None,
            levels: Levels::default(),
            extra_allowed_modules: ExtraModules::default(),
            shell_network: false,
            lenient_network: false,
            python: None,
            max_parallel: 8,
            max_timeout_ms: 600_000,
            scratch_dir: PathBuf::from("/tmp"),
            child_exe: PathBuf::from("/proc/self/exe"),
        }
    }
}

impl Options {
    /// The most lenient level that is allowed. Commands count as lenient.
    pub(crate) fn max_level(&self) -> Level {
        match self.max_strictness_allowed {
            None | Some(Level::Lenient) => Level::Shell,
            Some(level) => level,
        }
    }
}

/// Additions to the module lists. Lenient has none: it allows the whole standard library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraModules {
    /// Additions at `standard`.
    pub standard: Vec<String>,
    /// Additions at `strict`.
    pub strict: Vec<String>,
}

impl ExtraModules {
    /// The additions of one level.
    pub fn of(&self, level: Level) -> &[String] {
        match level {
            Level::Strict => &self.strict,
            Level::Standard => &self.standard,
            Level::Lenient | Level::Shell => &[],
        }
    }
}
