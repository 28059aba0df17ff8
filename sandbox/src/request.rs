//! What the parent asks a child to do. It travels as JSON in a memory file that becomes the child's standard input:
//! never in arguments or the environment, which others may read.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::limits::Limits;
use crate::policy::FileRule;
use crate::selftest::Probe;

/// One child's whole assignment.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The parent: if it is gone when the child looks, the child ends.
    pub parent_pid: i32,
    /// The level, for the policy's profile and for messages.
    pub level: Level,
    /// The limits, with a call's own timeout worked in.
    pub limits: Limits,
    /// The kernel's landlock ABI as the parent found it.
    pub landlock_abi: u32,
    /// The directory to start in; lenient Python owns it.
    pub directory: PathBuf,
    /// The paths that stay open.
    pub files: Vec<FileRule>,
    /// What to do behind the policy.
    pub task: Task,
}

/// What a child does once the policy is in force.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Runs JavaScript.
    #[serde(rename = "javascript")]
    JavaScript {
        /// The program.
        code: String,
        /// Whether `import` is answered with a refusal rather than a bare syntax error.
        language_check: bool,
    },
    /// Becomes `CPython` with the embedded driver.
    Python(PythonTask),
    /// Tries to get out (the self-test).
    Probe(Probe),
}

/// What the embedded driver needs. It reads the same names.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PythonTask {
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The program.
    pub code: String,
    /// Whether modules and builtins are checked.
    pub language_check: bool,
    /// Modules that the level allows.
    pub allowed_modules: Vec<String>,
    /// Builtins that the level refuses.
    pub refused_builtins: Vec<String>,
    /// Modules imported before the filters, for what they map or cache.
    pub warm_modules: Vec<String>,
    /// Directories appended to `sys.path` (site-packages, if extra modules are allowed).
    pub extra_path: Vec<PathBuf>,
}
