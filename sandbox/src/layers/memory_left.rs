//! How much memory is left: of the machine, and of the cgroups around this process, delegated or not. Reads
//! only.

use std::fs;
use std::path::{Path, PathBuf};

use super::cgroup_tree::{CgroupMount, is_v2, mounts, own_path};
use crate::proc_text::figure;

/// Memory that programs can still take, and all that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemoryLeft {
    pub(crate) available: u64,
    pub(crate) total: u64,
}

/// Reads how much memory is left.
#[derive(Debug)]
pub(crate) struct MemoryGauge(Vec<MemoryCgroup>);

impl MemoryGauge {
    /// For the present cgroups of this process.
    pub(crate) fn new() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self(cgroups(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo")))
    }

    /// What is left where least is left; `None` if the kernel does not say.
    pub(crate) fn read(&self) -> Option<MemoryLeft> {
        let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
        self.0.iter().filter_map(MemoryCgroup::read).chain(machine).min_by_key(|left| left.available)
    }
}

/// A cgroup that may limit memory.
#[derive(Debug, PartialEq, Eq)]
struct MemoryCgroup {
    path: PathBuf,
    files: &'static CgroupFiles,
}

/// The names of a cgroup's files.
#[derive(Debug, PartialEq, Eq)]
struct CgroupFiles {
    limit: &'static str,
    used: &'static str,
    /// The figures of `memory.stat` that the kernel gives back when memory is short.
    reclaimable: &'static [&'static str],
}

const VERSION_1: CgroupFiles = CgroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};
const VERSION_2: CgroupFiles = CgroupFiles {
    limit: "memory.max",
    used: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};

impl MemoryCgroup {
    /// `None` without a limit.
    fn read(&self) -> Option<MemoryLeft> {
        let number = |file: &str| fs::read_to_string(self.path.join(file)).ok()?.trim().parse::<u64>().ok();
        // Version 1 writes a huge number instead of "max".
        let total = number(self.files.limit).filter(|limit| *limit < u64::MAX / 4)?;
        let used = number(self.files.used)?;
        let stat = fs::read_to_string(self.path.join("memory.stat")).unwrap_or_default();
        let available = total.saturating_sub(used.saturating_sub(self.reclaimable(&stat)));
        Some(MemoryLeft { available, total })
    }

    fn reclaimable(&self, stat: &str) -> u64 {
        let pairs = stat.lines().filter_map(|line| line.split_once(' '));
        let figures = pairs.filter(|(name, _)| self.files.reclaimable.contains(name));
        figures.filter_map(|(_, figure)| figure.parse::<u64>().ok()).fold(0, u64::saturating_add)
    }
}

/// The memory cgroups of a process, and those above them.
fn cgroups(cgroup: &str, mountinfo: &str) -> Vec<MemoryCgroup> {
    let has_memory = |filesystem: &str, options: &str| {
        filesystem == "cgroup" && options.split(',').any(|option| option == "memory")
    };
    let mut found = below(own_path(cgroup), &mounts(mountinfo, is_v2), &VERSION_2);
    found.extend(below(own_path_v1(cgroup), &mounts(mountinfo, has_memory), &VERSION_1));
    found
}

/// From the cgroup with this path up to the mount point that shows it.
fn below(path: Option<&str>, mounts: &[CgroupMount], files: &'static CgroupFiles) -> Vec<MemoryCgroup> {
    let shown = |mount: &CgroupMount| Some((mount.directory_of(path?)?, mount.point.clone()));
    let Some((own, top)) = mounts.iter().find_map(shown) else { return Vec::new() };
    let levels = own.ancestors().take_while(|level| level.starts_with(&top)).map(Path::to_owned);
    levels.map(|path| MemoryCgroup { path, files }).collect()
}

/// The path in the v1 tree of the memory controller: "4:memory:/path".
fn own_path_v1(cgroup: &str) -> Option<&str> {
    let fields = cgroup.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let mut with_memory = fields.filter(|(names, _)| names.split(',').any(|name| name == "memory"));
    with_memory.next().map(|(_, path)| path)
}

fn of_machine(meminfo: &str) -> Option<MemoryLeft> {
    Some(MemoryLeft { available: figure(meminfo, "MemAvailable:")?, total: figure(meminfo, "MemTotal:")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn paths(cgroup: &str, mountinfo: &str) -> Vec<(String, &'static str)> {
        let all = cgroups(cgroup, mountinfo);
        all.iter().map(|cgroup| (cgroup.path.display().to_string(), cgroup.files.limit)).collect()
    }

    #[test]
    fn every_cgroup_around_the_process_limits_it() {
        let v2 = "32 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw,nsdelegate\n";
        let unit = "/sys/fs/cgroup/system.slice/nanoclaw.service";
        let levels = [unit, "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup"];
        let expected = levels.map(|path| (path.to_owned(), "memory.max"));
        assert_eq!(paths("0::/system.slice/nanoclaw.service\n", v2), expected);
        let v1 = "35 31 0:32 / /cg/cpu rw - cgroup cgroup rw,cpu\n36 31 0:33 / /cg/m rw - cgroup cgroup rw,memory\n";
        let expected = ["/cg/m/a", "/cg/m"].map(|path| (path.to_owned(), "memory.limit_in_bytes"));
        assert_eq!(paths("5:cpu:/x\n4:memory:/a\n0::/\n", v1), expected);
        let container = "36 31 0:33 /docker/abc /cg/m rw - cgroup cgroup rw,memory\n";
        assert_eq!(
            paths("4:memory:/docker/abc\n", container),
            [("/cg/m".to_owned(), "memory.limit_in_bytes")]
        );
        assert!(paths("", "").is_empty());
    }

    #[test]
    fn pages_of_files_are_left_over() {
        let home = tempfile::tempdir().unwrap();
        let cgroup = MemoryCgroup { path: home.path().to_owned(), files: &VERSION_2 };
        assert_eq!(cgroup.read(), None);
        std::fs::write(home.path().join("memory.max"), "max\n").unwrap();
        std::fs::write(home.path().join("memory.current"), "900\n").unwrap();
        assert_eq!(cgroup.read(), None, "no limit");
        std::fs::write(home.path().join("memory.max"), "1000\n").unwrap();
        assert_eq!(cgroup.read(), Some(MemoryLeft { available: 100, total: 1_000 }));
        let stat = "anon 500\ninactive_file 70\nactive_file 30\nslab_reclaimable 5\nslab_unreclaimable 50\n";
        std::fs::write(home.path().join("memory.stat"), stat).unwrap();
        assert_eq!(cgroup.read(), Some(MemoryLeft { available: 205, total: 1_000 }));
    }

    #[test]
    fn the_machine_says_how_much_is_left() {
        let meminfo = "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:     300 kB\n";
        let left = MemoryLeft { available: 300 * KIB, total: 1_000 * KIB };
        assert_eq!(of_machine(meminfo), Some(left));
        assert_eq!(of_machine("MemTotal: 1 kB\n"), None, "before Linux 3.14");
        assert!(MemoryGauge::new().read().is_some_and(|left| left.available > 0));
    }
}
