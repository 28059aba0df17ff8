//! What works on this machine, for `doctor`, `/readyz` and the start-up log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::layers::LayersReport;
use crate::level::Level;
use crate::level_verdict::{LevelFault, LevelOutcome};

/// What works on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The release of the kernel.
    pub kernel: String,
    /// The landlock ABI; `None` if the kernel has no landlock.
    pub landlock_abi: Option<u32>,
    /// Whether the kernel has seccomp filters.
    pub seccomp: bool,
    /// The Python interpreter.
    pub python: PythonReport,
    /// The built-in JavaScript engine.
    pub javascript: String,
    /// The levels, the strictest first.
    pub levels: Vec<LevelReport>,
    /// The optional layers. No level needs them.
    pub layers: LayersReport,
}

impl SandboxReport {
    /// Whether the policy of every level is in force (Python may still be off).
    pub fn able(&self) -> bool {
        self.levels.iter().all(|level| level.able)
    }

    /// Whether every level was tested and Python works: a later report finds the same.
    pub fn is_final(&self) -> bool {
        self.levels.iter().all(|level| level.tested) && self.python.reason.is_none()
    }
}

/// The interpreter in use, or why there is no usable one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonReport {
    /// Its path, with links and shims resolved.
    pub path: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Why Python is off.
    pub reason: Option<String>,
    /// Modules of `extra_allowed_modules` that cannot be imported, with the reasons. Python works without
    /// them.
    #[serde(default)]
    pub missing_modules: Vec<(String, String)>,
}

/// Whether a level holds, tested with real children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelReport {
    /// The level.
    pub level: Level,
    /// Whether it holds.
    pub able: bool,
    /// Why not.
    pub reason: Option<String>,
    /// Whether the test could be made. An untested level is off until a later test passes.
    pub tested: bool,
}

impl LevelReport {
    pub(crate) fn new(level: Level, outcome: LevelOutcome) -> Self {
        let tested = !matches!(outcome, Err(LevelFault::Untested(_)));
        let reason = outcome.err().map(LevelFault::into_reason);
        Self { level, able: reason.is_none(), reason, tested }
    }
}
