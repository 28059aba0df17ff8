//! What the composition root decides about the sandbox; the configuration nests this struct.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::limits::LevelLimits;
use crate::python::is_module_name;

/// The sandbox's own options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxOptions {
    /// The level of a call that names none.
    pub default_strictness: Level,
    /// The most lenient level that any call may have; none means that all are allowed. Shell commands count as lenient.
    pub max_strictness_allowed: Option<Level>,
    /// Limits per level.
    pub levels: LevelLimits,
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
    /// Sessions open at once; one more is refused. They take no place of programs.
    pub max_sessions: usize,
    /// The longest wall clock that a single call may ask for.
    pub max_timeout_ms: u64,
    /// Where private directories of lenient runs are made.
    pub scratch_dir: PathBuf,
    /// The binary that becomes the child: it must call [`child_hook`](crate::child_hook) first thing in `main`.
    pub child_exe: PathBuf,
}

impl Default for SandboxOptions {
    fn default() -> Self {
        Self {
            default_strictness: Level::Standard,
            max_strictness_allowed: None,
            levels: LevelLimits::default(),
            extra_allowed_modules: ExtraModules::default(),
            shell_network: false,
            lenient_network: false,
            python: None,
            max_parallel: 8,
            max_sessions: 16,
            max_timeout_ms: 600_000,
            scratch_dir: PathBuf::from("/tmp"),
            child_exe: PathBuf::from("/proc/self/exe"),
        }
    }
}

impl SandboxOptions {
    /// The levels that a call may name, from the tightest on.
    pub fn levels_allowed(&self) -> Vec<Level> {
        Level::FOR_CODE.into_iter().filter(|level| *level <= self.max_level()).collect()
    }

    /// The most lenient level that is allowed. Commands count as lenient.
    pub(crate) fn max_level(&self) -> Level {
        match self.max_strictness_allowed {
            None | Some(Level::Lenient) => Level::Shell,
            Some(level) => level,
        }
    }
}

/// Additions to the module lists. Each list is its level's own; what any of them names, lenient may import, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraModules {
    /// Additions at `standard`.
    pub standard: Vec<String>,
    /// Additions at `strict`.
    pub strict: Vec<String>,
    /// Additions at `lenient` alone, beside the whole standard library and what the other lists name.
    pub lenient: Vec<String>,
}

impl ExtraModules {
    /// The additions of one level, each once.
    pub fn of(&self, level: Level) -> Vec<String> {
        match level {
            Level::Strict => once([&self.strict]),
            Level::Standard => once([&self.standard]),
            Level::Lenient => self.all(),
            Level::Shell => Vec::new(),
        }
    }

    /// The additions of all levels, each once.
    pub(crate) fn all(&self) -> Vec<String> {
        once([&self.standard, &self.strict, &self.lenient])
    }

    /// The list to which a level's own additions go.
    pub(crate) fn list(&mut self, level: Level) -> Option<&mut Vec<String>> {
        match level {
            Level::Strict => Some(&mut self.strict),
            Level::Standard => Some(&mut self.standard),
            Level::Lenient => Some(&mut self.lenient),
            Level::Shell => None,
        }
    }

    /// The names that cannot be a module's: in which level's list, at which place.
    pub fn bad_names(&self) -> Vec<(Level, usize, &str)> {
        let lists = [
            (Level::Strict, &self.strict),
            (Level::Standard, &self.standard),
            (Level::Lenient, &self.lenient),
        ];
        let named = lists.into_iter().flat_map(|(level, list)| {
            list.iter().enumerate().map(move |(at, name)| (level, at, name.as_str()))
        });
        named.filter(|(_, _, name)| !is_module_name(name)).collect()
    }
}

fn once<const N: usize>(lists: [&Vec<String>; N]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in lists.into_iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_has_what_any_list_names() {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let extra = ExtraModules {
            standard: list(&["numpy", "pandas", "numpy"]),
            strict: list(&["numpy"]),
            lenient: list(&["yaml"]),
        };
        assert_eq!(extra.of(Level::Standard), list(&["numpy", "pandas"]));
        assert_eq!(extra.of(Level::Strict), list(&["numpy"]));
        assert_eq!(extra.of(Level::Lenient), list(&["numpy", "pandas", "yaml"]));
        assert!(extra.of(Level::Shell).is_empty());
    }
}
