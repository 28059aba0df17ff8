//! What makes one zygote different from another.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::policy::FileRule;

/// A zygote's whole nature. The driver reads the same names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ZygoteSpec {
    /// Equal exactly for equal natures.
    pub id: u64,
    /// The level of its children.
    pub level: Level,
    /// The interpreter.
    pub interpreter: PathBuf,
    /// The paths that stay open for the zygote itself.
    pub files: Vec<FileRule>,
    /// The kernel's landlock ABI.
    pub landlock_abi: u32,
    /// Modules that the level allows.
    pub allowed_modules: Vec<String>,
    /// Builtins that the level refuses.
    pub refused_builtins: Vec<String>,
    /// Modules imported before the filters, for what they map or cache.
    pub warm_modules: Vec<String>,
    /// Directories appended to `sys.path` (site-packages, if extra modules are allowed).
    pub extra_path: Vec<PathBuf>,
}

impl ZygoteSpec {
    /// Gives it its id.
    pub(crate) fn with_id(self) -> Self {
        let mut hasher = DefaultHasher::new();
        Self { id: 0, ..self.clone() }.hash(&mut hasher);
        Self { id: hasher.finish(), ..self }
    }
}
