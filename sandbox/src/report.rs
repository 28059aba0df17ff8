//! What works here and what does not, for `doctor`, `/readyz` and the start-up log.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::layers::LayersReport;
use crate::level::Level;

/// The sandbox's state on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// The kernel's release.
    pub kernel: String,
    /// Landlock's ABI; none where the kernel has no landlock.
    pub landlock_abi: Option<u32>,
    /// Whether the kernel has seccomp filters.
    pub seccomp: bool,
    /// The Python interpreter.
    pub python: PythonReport,
    /// The built-in JavaScript engine.
    pub javascript: String,
    /// The levels, from the tightest on.
    pub levels: Vec<LevelReport>,
    /// The optional layers around them. None is needed, whatever it says.
    pub layers: LayersReport,
}

impl SandboxReport {
    /// Whether every level holds (Python may still be off).
    pub fn able(&self) -> bool {
        self.levels.iter().all(|level| level.able)
    }
}

/// The interpreter in use, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonReport {
    /// Its path, links and shims resolved.
    pub path: Option<PathBuf>,
    /// Its version.
    pub version: Option<String>,
    /// Why Python is off.
    pub reason: Option<String>,
}

/// Whether a level can be enforced, shown by a self-test in real children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LevelReport {
    /// The level.
    pub level: Level,
    /// Whether it holds.
    pub able: bool,
    /// Why not.
    pub reason: Option<String>,
}
