//! The limits of the levels and their defaults.

use serde::{Deserialize, Serialize};

use crate::level::Level;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The limits of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLimits {
    /// Wall clock from the start of the child.
    pub timeout_ms: u64,
    /// Processor time (`RLIMIT_CPU`). One second above the wall clock, so that the wall clock ends a run
    /// first.
    pub cpu_s: u64,
    /// Address space (`RLIMIT_AS`). The address space that extra modules use before a Python program starts
    /// is added.
    pub address_space_bytes: u64,
    /// The largest file (`RLIMIT_FSIZE`).
    pub file_size_bytes: u64,
    /// Open descriptors (`RLIMIT_NOFILE`).
    pub open_files: u64,
    /// Threads and processes (`RLIMIT_NPROC`). Under root, a private real user id makes the count exact.
    pub processes: u64,
    /// Size of the private directory; 0 at levels without one. Exceeding it ends the run as `output_limit`.
    pub own_directory_bytes: u64,
    /// Files, directories and links in it. Exceeding it ends the run as `output_limit`.
    pub own_directory_entries: u64,
    /// Standard output to keep. One byte more ends the run as `output_limit`.
    pub stdout_bytes: u64,
    /// Standard error to keep. One byte more ends the run as `output_limit`.
    pub stderr_bytes: u64,
}

impl RunLimits {
    /// The limits of a level in SANDBOX.md.
    pub const fn of(level: Level) -> Self {
        // Seconds; address space, largest file; descriptors, processes; directory, its entries; output,
        // errors.
        let (time_s, memory, files, directory, output) = match level {
            Level::Strict => (5, (256 * MIB, 0), (16, 0), (0, 0), (64 * KIB, 16 * KIB)),
            Level::Standard => (10, (512 * MIB, 0), (32, 0), (0, 0), (256 * KIB, 64 * KIB)),
            Level::Lenient => (30, (GIB, 64 * MIB), (64, 64), (256 * MIB, 20_000), (MIB, 256 * KIB)),
            Level::Shell => (60, (GIB, 256 * MIB), (256, 128), (GIB, 100_000), (MIB, 256 * KIB)),
        };
        Self {
            timeout_ms: time_s * 1_000,
            cpu_s: time_s + 1,
            address_space_bytes: memory.0,
            file_size_bytes: memory.1,
            open_files: files.0,
            processes: files.1,
            own_directory_bytes: directory.0,
            own_directory_entries: directory.1,
            stdout_bytes: output.0,
            stderr_bytes: output.1,
        }
    }
}

/// The limits of every level. A missing key keeps the level's default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, from = "LevelPatches")]
pub struct LevelLimits {
    /// Limits of `strict`.
    pub strict: RunLimits,
    /// Limits of `standard`.
    pub standard: RunLimits,
    /// Limits of `lenient`.
    pub lenient: RunLimits,
    /// Limits of shell commands.
    pub shell: RunLimits,
}

impl LevelLimits {
    /// The limits of one level.
    pub const fn of(&self, level: Level) -> &RunLimits {
        match level {
            Level::Strict => &self.strict,
            Level::Standard => &self.standard,
            Level::Lenient => &self.lenient,
            Level::Shell => &self.shell,
        }
    }
}

impl Default for LevelLimits {
    fn default() -> Self {
        LevelPatches::default().into()
    }
}

/// The levels in a configuration, before the defaults are filled in.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LevelPatches {
    strict: LimitPatch,
    standard: LimitPatch,
    lenient: LimitPatch,
    shell: LimitPatch,
}

impl From<LevelPatches> for LevelLimits {
    fn from(patches: LevelPatches) -> Self {
        Self {
            strict: patches.strict.over(&RunLimits::of(Level::Strict)),
            standard: patches.standard.over(&RunLimits::of(Level::Standard)),
            lenient: patches.lenient.over(&RunLimits::of(Level::Lenient)),
            shell: patches.shell.over(&RunLimits::of(Level::Shell)),
        }
    }
}

/// Some limits of a level: serde's defaults do not depend on the level.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitPatch {
    timeout_ms: Option<u64>,
    cpu_s: Option<u64>,
    address_space_bytes: Option<u64>,
    file_size_bytes: Option<u64>,
    open_files: Option<u64>,
    processes: Option<u64>,
    own_directory_bytes: Option<u64>,
    own_directory_entries: Option<u64>,
    stdout_bytes: Option<u64>,
    stderr_bytes: Option<u64>,
}

impl LimitPatch {
    fn over(self, base: &RunLimits) -> RunLimits {
        RunLimits {
            timeout_ms: self.timeout_ms.unwrap_or(base.timeout_ms),
            cpu_s: self.cpu_s.unwrap_or(base.cpu_s),
            address_space_bytes: self.address_space_bytes.unwrap_or(base.address_space_bytes),
            file_size_bytes: self.file_size_bytes.unwrap_or(base.file_size_bytes),
            open_files: self.open_files.unwrap_or(base.open_files),
            processes: self.processes.unwrap_or(base.processes),
            own_directory_bytes: self.own_directory_bytes.unwrap_or(base.own_directory_bytes),
            own_directory_entries: self.own_directory_entries.unwrap_or(base.own_directory_entries),
            stdout_bytes: self.stdout_bytes.unwrap_or(base.stdout_bytes),
            stderr_bytes: self.stderr_bytes.unwrap_or(base.stderr_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partially_configured_level_keeps_its_other_defaults() {
        let levels: LevelLimits = serde_json::from_str(r#"{"strict":{"timeout_ms":100}}"#).unwrap();
        assert_eq!(levels.strict.timeout_ms, 100);
        assert_eq!(levels.strict.address_space_bytes, 256 * MIB);
        assert_eq!(levels.lenient, RunLimits::of(Level::Lenient));
    }

    #[test]
    fn an_unknown_limit_is_refused() {
        let parsed = serde_json::from_str::<LevelLimits>(r#"{"strict":{"timeout_s":1}}"#);
        assert!(parsed.unwrap_err().to_string().contains("timeout_s"));
    }

    #[test]
    fn level_limits_round_trip() {
        let text = serde_json::to_string(&LevelLimits::default()).unwrap();
        assert_eq!(serde_json::from_str::<LevelLimits>(&text).unwrap(), LevelLimits::default());
    }
}
