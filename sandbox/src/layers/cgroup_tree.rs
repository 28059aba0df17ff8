//! Finds this process in the cgroup v2 tree, and the part of the tree that is delegated to us. Changes
//! nothing.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use rustix::io::Errno;

use thiserror::Error;

/// The leaf for the processes of a delegated cgroup: the kernel enables controllers only in cgroups without
/// processes.
pub(super) const SERVER_LEAF: &str = "server";

/// The attributes that systemd sets on a delegated cgroup. Only root can read the first.
const DELEGATION_MARKS: [&str; 2] = ["trusted.delegate", "user.delegate"];

/// How many ancestors of a process are followed.
const MAX_ANCESTORS: usize = 64;

/// Why runs have no cgroups.
#[derive(Debug, Error)]
pub(crate) enum CgroupError {
    #[error("no cgroup v2 tree is mounted")]
    Absent,
    #[error("our cgroup '{path}' lies outside of the mounted tree")]
    Outside { path: String },
    /// In a container, or with `ProtectControlGroups=` in the unit.
    #[error("'{}' is read-only", path.display())]
    ReadOnly { path: PathBuf },
    #[error("'{}' is not ours to arrange: {source}", path.display())]
    Denied { path: PathBuf, source: io::Error },
    #[error("cannot read '{}': {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot make '{}': {source}", path.display())]
    Make { path: PathBuf, source: io::Error },
}

impl CgroupError {
    /// What an operator can do about it.
    pub(super) fn advice(&self) -> Option<String> {
        let advice = match self {
            Self::Absent => "boot with systemd.unified_cgroup_hierarchy=1 to have cgroup v2",
            Self::ReadOnly { .. } => {
                "under systemd: Delegate=memory pids and ReadWritePaths=-/sys/fs/cgroup/system.slice/%n in the unit; \
                 in a container: mount its cgroup tree writable"
            }
            Self::Denied { .. } | Self::Make { .. } => "set Delegate=memory pids in the unit",
            Self::Outside { .. } | Self::Read { .. } => return None,
        };
        Some(advice.to_owned())
    }
}

/// The part of the tree that we may use.
#[derive(Debug)]
pub(super) struct CgroupBase {
    /// The parent of our cgroups.
    pub(super) path: PathBuf,
    /// Whether all of it is ours, so that we may enable controllers.
    pub(super) is_delegated: bool,
}

/// Finds the part of the tree for the server with this process id.
pub(super) fn find(server: i32) -> Result<CgroupBase, CgroupError> {
    let own_cgroup = directory()?;
    // The first broker has moved the server to the leaf.
    let parent = own_cgroup.parent().filter(|_| own_cgroup.ends_with(SERVER_LEAF));
    if let Some(parent) = parent.filter(|parent| is_boundary(parent)) {
        return Ok(CgroupBase {
            path: parent.to_owned(),
            is_delegated: has_only_descendants(parent, server),
        });
    }
    let is_delegated = is_boundary(&own_cgroup) && has_only_descendants(&own_cgroup, server);
    Ok(CgroupBase { path: own_cgroup, is_delegated })
}

/// The directory of this process's cgroup, if it is writable.
fn directory() -> Result<PathBuf, CgroupError> {
    let read = |path: &str| {
        fs::read_to_string(path).map_err(|source| CgroupError::Read { path: PathBuf::from(path), source })
    };
    let cgroup = read("/proc/self/cgroup")?;
    let path = own_path(&cgroup).ok_or(CgroupError::Absent)?;
    let mountinfo = read("/proc/self/mountinfo")?;
    let mounts = mounts(&mountinfo, is_v2);
    if mounts.is_empty() {
        return Err(CgroupError::Absent);
    }
    let candidates: Vec<PathBuf> = mounts.iter().filter_map(|mount| mount.directory_of(path)).collect();
    let mut refusal = CgroupError::Outside { path: path.to_owned() };
    for candidate in candidates {
        match rustix::fs::access(&candidate, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => return Ok(candidate),
            Err(Errno::ROFS) => refusal = CgroupError::ReadOnly { path: candidate },
            Err(error) => refusal = CgroupError::Denied { path: candidate, source: error.into() },
        }
    }
    Err(refusal)
}

/// The path in the v2 tree: the line with number 0 and no controllers.
pub(super) fn own_path(cgroup: &str) -> Option<&str> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(path.strip_suffix(" (deleted)").unwrap_or(path))
}

/// A mount of a tree of cgroups.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CgroupMount {
    /// The part of the tree that it shows.
    root: String,
    /// The mount point.
    pub(super) point: PathBuf,
}

impl CgroupMount {
    /// The directory of a cgroup in this mount.
    pub(super) fn directory_of(&self, path: &str) -> Option<PathBuf> {
        // Both are relative to the cgroup namespace: paths outside of it start with "/..".
        if path.starts_with("/..") || self.root.starts_with("/..") {
            return None;
        }
        let inside = Path::new(path).strip_prefix(&self.root).ok()?;
        Some(if inside.as_os_str().is_empty() { self.point.clone() } else { self.point.join(inside) })
    }
}

/// Whether a mount shows the v2 tree.
pub(super) fn is_v2(filesystem: &str, _options: &str) -> bool {
    filesystem == "cgroup2"
}

/// The mounts of a tree of cgroups, by type and options of their file system: "id parent device root point
/// options more… - type source options".
pub(super) fn mounts(mountinfo: &str, is_wanted: impl Fn(&str, &str) -> bool) -> Vec<CgroupMount> {
    let parse = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut filesystem = after.split(' ');
        if !is_wanted(filesystem.next()?, filesystem.nth(1).unwrap_or_default()) {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        Some(CgroupMount { root: unescape(root), point: PathBuf::from(unescape(point)) })
    };
    mountinfo.lines().filter_map(parse).collect()
}

/// Decodes the kernel's escapes: space, tab, newline and backslash as three octal digits.
fn unescape(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// Whether this cgroup is delegated to us.
///
/// systemd sets an attribute. Before systemd 251 only root could read it: for other users, a cgroup that is
/// ours below one that is not shows the same. Root owns everything, so root needs the attribute.
fn is_boundary(cgroup: &Path) -> bool {
    let is_marked = |mark: &str| {
        let mut value = [0_u8; 8];
        rustix::fs::getxattr(cgroup, mark, &mut value[..])
            .is_ok_and(|length| value.get(..length) == Some(b"1".as_slice()))
    };
    if DELEGATION_MARKS.iter().any(|mark| is_marked(mark)) {
        return true;
    }
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |path: &Path| fs::metadata(path).is_ok_and(|data| data.uid() == user);
    user != 0
        && is_ours(&cgroup.join("cgroup.subtree_control"))
        && cgroup.parent().is_some_and(|outer| !is_ours(outer))
}

/// Whether all processes in this cgroup are the server or its descendants.
fn has_only_descendants(cgroup: &Path, server: i32) -> bool {
    let Ok(processes) = fs::read_to_string(cgroup.join("cgroup.procs")) else { return false };
    // A process of another pid namespace has number 0 here, which is nobody's descendant.
    processes.lines().all(|line| line.parse().is_ok_and(|pid| descends(pid, server)))
}

fn descends(mut pid: i32, ancestor: i32) -> bool {
    for _ in 0..MAX_ANCESTORS {
        if pid == ancestor {
            return true;
        }
        match parent_of(pid) {
            Some(parent) if pid > 0 => pid = parent,
            _ => return false,
        }
    }
    false
}

fn parent_of(pid: i32) -> Option<i32> {
    stat_field(pid, 1)?.parse().ok()
}

/// The start time of a process in kernel ticks. Together with the id it is unique.
pub(super) fn started_at(pid: u32) -> Option<String> {
    stat_field(i32::try_from(pid).ok()?, 19)
}

/// A field of `/proc/PID/stat`, counted from the state. The name before it may contain any character.
fn stat_field(pid: i32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(index).map(|field| field.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEMD_252: &str = "\
24 29 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
32 23 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
33 23 0:27 / /sys/fs/pstore rw,nosuid,nodev,noexec,relatime shared:10 - pstore pstore rw
61 32 0:26 /system.slice/nanoclaw.service /sys/fs/cgroup/system.slice/nanoclaw.service rw - cgroup2 cgroup2 rw,nsdelegate
";
    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const BOUND: &str = "900 880 0:30 /docker/abc /mnt/my\\040cgroups rw - cgroup2 cgroup rw";
    const OUTSIDE: &str = "900 880 0:30 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw";

    fn directories(mountinfo: &str, path: &str) -> Vec<String> {
        let all = mounts(mountinfo, is_v2);
        all.iter()
            .filter_map(|mount| mount.directory_of(path))
            .map(|directory| directory.display().to_string())
            .collect()
    }

    #[test]
    fn the_cgroup_v2_path_is_on_the_line_with_number_zero() {
        assert_eq!(own_path("0::/system.slice/nanoclaw.service\n"), Some("/system.slice/nanoclaw.service"));
        let hybrid = "9:name=systemd:/\n4:memory:/api/c252\n1:cpu:/\n0::/\n";
        assert_eq!(own_path(hybrid), Some("/"));
        assert_eq!(own_path("10:memory:/x\n1:name=systemd:/y\n"), None);
        assert_eq!(own_path("0::/gone (deleted)\n"), Some("/gone"));
    }

    #[test]
    fn a_cgroup_is_found_in_every_mount_that_contains_it() {
        let unit = "/sys/fs/cgroup/system.slice/nanoclaw.service";
        assert_eq!(directories(SYSTEMD_252, "/system.slice/nanoclaw.service"), [unit, unit]);
        assert_eq!(directories(SYSTEMD_252, "/user.slice"), ["/sys/fs/cgroup/user.slice"]);
        assert_eq!(directories(HYBRID, "/"), ["/sys/fs/cgroup/unified"]);
        assert_eq!(directories(BOUND, "/docker/abc/x"), ["/mnt/my cgroups/x"]);
    }

    #[test]
    fn a_cgroup_outside_of_a_mount_is_not_found() {
        assert!(directories(BOUND, "/docker/other").is_empty());
        assert!(directories(OUTSIDE, "/").is_empty());
        assert!(directories(SYSTEMD_252, "/../outside").is_empty());
        assert!(directories("", "/").is_empty());
        assert!(directories("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw", "/").is_empty());
    }

    #[test]
    fn descendants_of_the_server_are_recognized() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        let parent = parent_of(own_pid).unwrap();
        assert!(descends(own_pid, own_pid));
        assert!(descends(own_pid, parent));
        assert!(!descends(parent, own_pid));
        assert!(!descends(0, own_pid), "a process of another pid namespace has no known parent");
    }

    #[test]
    fn a_start_time_is_a_number_and_a_missing_process_has_none() {
        assert!(started_at(std::process::id()).unwrap().parse::<u64>().unwrap() > 0);
        assert_eq!(started_at(u32::MAX), None);
    }
}
