//! The specification of a zygote.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::policy::PathRule;

/// Everything that makes one zygote different from another. `zygote.py` and `driver.py` read the same field
/// names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ZygoteSpec {
    /// Equal exactly for equal specifications.
    pub id: u64,
    /// The level of its children.
    pub level: Level,
    pub interpreter: PathBuf,
    /// The paths that landlock allows to the zygote itself.
    pub files: Vec<PathRule>,
    /// The landlock ABI of the kernel.
    pub landlock_abi: u32,
    pub allowed_modules: Vec<String>,
    pub refused_builtins: Vec<String>,
    /// The more lenient levels and their modules, for the advice in refusals; the strictest first.
    #[serde(default)]
    pub wider_levels: Vec<(Level, Vec<String>)>,
    /// Extra modules that cannot be imported, with the reasons.
    #[serde(default)]
    pub missing_modules: Vec<(String, String)>,
    /// Modules to import before the filters are in force, because of what they map or cache.
    pub warm_modules: Vec<String>,
    /// Directories appended to `sys.path` (site-packages, if extra modules are allowed).
    pub extra_path: Vec<PathBuf>,
}

impl ZygoteSpec {
    pub(crate) fn with_id(self) -> Self {
        let mut hasher = DefaultHasher::new();
        Self { id: 0, ..self.clone() }.hash(&mut hasher);
        Self { id: hasher.finish(), ..self }
    }
}
