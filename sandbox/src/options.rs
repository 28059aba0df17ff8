//! The options of the sandbox. The configuration nests this struct.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::languages::python::is_module_name;
use crate::languages::shell;
use crate::level::Level;
use crate::limits::LevelLimits;
use crate::policy::{PathAccess, PathRule};

/// The options of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxOptions {
    /// The level of a call that chooses none.
    pub default_strictness: Level,
    /// The most lenient level that a call may choose; `None` allows all. Commands count as lenient.
    pub max_strictness_allowed: Option<Level>,
    /// Limits per level.
    pub levels: LevelLimits,
    /// Python modules allowed beyond the built-in lists, such as `numpy`. The host's site-packages must have
    /// them.
    pub extra_allowed_modules: ExtraModules,
    /// Whether commands may use the network. Otherwise they have no sockets.
    pub shell_network: bool,
    /// Whether commands may execute the files of their own directory: a compiled program, a script, a
    /// virtual environment. Interpreters and the loader can read them either way.
    pub shell_run_own_files: bool,
    /// Directories of programs beyond those of the system, such as `/opt/tool`. Commands may read and execute
    /// all that lies in them.
    pub program_dirs: Vec<PathBuf>,
    /// Directories whose files commands, and lenient Python programs, may read beside their own: absolute
    /// paths. Commands may execute them as well. The caller sets them.
    #[serde(skip)]
    pub read_dirs: Vec<PathBuf>,
    /// Whether lenient programs may reach public addresses. `true` is refused: landlock knows ports but not
    /// addresses, and filters cannot read them, so no current kernel can enforce it.
    pub lenient_network: bool,
    /// The Python interpreter; `None` means the first suitable `python3` of `$PATH` and the usual
    /// directories.
    pub python: Option<PathBuf>,
    /// How long, in seconds, an idle Python zygote (a warm interpreter of one level) stays after its
    /// last run. 0: until it is replaced. The next run starts another one, which takes tens of milliseconds.
    pub python_zygote_idle_s: u64,
    /// Programs running at once. More wait for their turn; waiting does not count as running time.
    pub max_parallel: usize,
    /// Sessions open at once. One more is refused. They do not count against `max_parallel`.
    pub max_sessions: usize,
    /// The longest wall clock limit that a call may choose.
    pub max_timeout_ms: u64,
    /// The parent of private directories.
    pub scratch_dir: PathBuf,
    /// Files of the caller that no program may read, such as its keys: absolute paths. The self-test of each
    /// level tries to open them.
    #[serde(skip)]
    pub private_files: Vec<PathBuf>,
    /// What a run must leave free on the file system of its directory. The caller sets its own watermark.
    #[serde(skip)]
    pub kept_free: FreeSpace,
    /// The binary that becomes the broker: its `main` must call [`child_hook`](crate::child_hook) first.
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
            shell_run_own_files: true,
            program_dirs: Vec::new(),
            read_dirs: Vec::new(),
            lenient_network: false,
            python: None,
            python_zygote_idle_s: 300,
            max_parallel: 8,
            max_sessions: 16,
            max_timeout_ms: 600_000,
            scratch_dir: PathBuf::from("/tmp"),
            private_files: Vec::new(),
            kept_free: FreeSpace::default(),
            child_exe: PathBuf::from("/proc/self/exe"),
        }
    }
}

impl SandboxOptions {
    /// The levels that a call may choose, the strictest first.
    pub fn levels_allowed(&self) -> Vec<Level> {
        Level::FOR_CODE.into_iter().filter(|level| *level <= self.max_level()).collect()
    }

    /// Directories that every command may read: nothing secret may lie below them.
    pub fn readable_dirs(&self) -> Vec<PathBuf> {
        shell::readable_dirs(self)
    }

    /// The rules of a lenient Python program for [`Self::read_dirs`].
    pub(crate) fn read_rules(&self, level: Level) -> impl Iterator<Item = PathRule> {
        let dirs = self.read_dirs.iter().filter(move |dir| level == Level::Lenient && dir.exists());
        dirs.map(|dir| PathRule { path: dir.clone(), access: PathAccess::ReadTree })
    }

    /// The most lenient level that is allowed. Commands count as lenient.
    pub(crate) fn max_level(&self) -> Level {
        match self.max_strictness_allowed {
            None | Some(Level::Lenient) => Level::Shell,
            Some(level) => level,
        }
    }
}

/// Maximum free space from the percentage, bytes.
const SHARE_MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Free space of a file system: the larger one of a number of bytes and a share of at most 4 GiB. 0 switches
/// either part off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// In bytes.
    pub bytes: u64,
    /// In percent of the file system.
    pub percent: u64,
}

impl Default for FreeSpace {
    fn default() -> Self {
        Self { bytes: 256 * 1024 * 1024, percent: 5 }
    }
}

impl FreeSpace {
    /// The free space of a file system of this size, bytes.
    pub(crate) fn floor_bytes(self, total_bytes: u64) -> u64 {
        let share = (total_bytes / 100).saturating_mul(self.percent).min(SHARE_MAX_BYTES);
        self.bytes.max(share)
    }
}

/// Additions to the module lists of the levels. Lenient may import the modules of every list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ExtraModules {
    /// Additions at `standard`.
    pub standard: Vec<String>,
    /// Additions at `strict`.
    pub strict: Vec<String>,
    /// Additions at `lenient`, besides the standard library and the other lists.
    pub lenient: Vec<String>,
}

impl ExtraModules {
    /// The additions of one level, without duplicates.
    pub fn of(&self, level: Level) -> Vec<String> {
        match level {
            Level::Strict => without_duplicates([&self.strict]),
            Level::Standard => without_duplicates([&self.standard]),
            Level::Lenient => self.all(),
            Level::Shell => Vec::new(),
        }
    }

    /// The additions of all levels, without duplicates.
    pub(crate) fn all(&self) -> Vec<String> {
        without_duplicates([&self.standard, &self.strict, &self.lenient])
    }

    /// Removes these modules from every list.
    pub(crate) fn remove<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        for name in names {
            for list in [&mut self.standard, &mut self.strict, &mut self.lenient] {
                list.retain(|listed| listed != name);
            }
        }
    }

    /// The list of a level's own additions.
    pub(crate) fn list_mut(&mut self, level: Level) -> Option<&mut Vec<String>> {
        match level {
            Level::Strict => Some(&mut self.strict),
            Level::Standard => Some(&mut self.standard),
            Level::Lenient => Some(&mut self.lenient),
            Level::Shell => None,
        }
    }

    /// The invalid module names: the level of their list, their index, the name.
    pub fn bad_names(&self) -> Vec<(Level, usize, &str)> {
        let lists = [
            (Level::Strict, &self.strict),
            (Level::Standard, &self.standard),
            (Level::Lenient, &self.lenient),
        ];
        let named = lists.into_iter().flat_map(|(level, list)| {
            list.iter().enumerate().map(move |(index, name)| (level, index, name.as_str()))
        });
        named.filter(|(_, _, name)| !is_module_name(name)).collect()
    }
}

fn without_duplicates<const N: usize>(lists: [&Vec<String>; N]) -> Vec<String> {
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
    fn the_larger_part_of_the_free_space_counts_and_the_share_is_capped() {
        let floor = |bytes, percent, total_bytes| FreeSpace { bytes, percent }.floor_bytes(total_bytes);
        assert_eq!(floor(256, 5, 10_000), 500);
        assert_eq!(floor(256, 5, 1_000), 256);
        assert_eq!(floor(256, 5, 1 << 50), SHARE_MAX_BYTES);
        assert_eq!(floor(0, 0, 1 << 50), 0);
    }

    #[test]
    fn lenient_allows_the_extra_modules_of_every_level() {
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
