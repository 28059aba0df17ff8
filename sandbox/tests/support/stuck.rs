//! Processes that cannot die, and file systems on which nothing can be written: what a disk that no longer
//! answers does to a run.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Freezes processes with the freezer of cgroup version 1: they are in state D, and SIGKILL ends them only
/// after they are thawed.
pub(crate) struct Freezer(PathBuf);

impl Freezer {
    /// `None`, with a message, where there is no such freezer.
    pub(crate) fn new() -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup/freezer").join(format!("nanoclaw-test-{}", std::process::id()));
        if !path.parent().unwrap().join("cgroup.procs").exists() || std::fs::create_dir(&path).is_err() {
            println!("SKIPPED: a process that cannot die needs root and the freezer of cgroup version 1");
            return None;
        }
        Some(Self(path))
    }

    /// Freezes these processes, and waits until they are. They continue when the result is dropped: those
    /// that were killed die.
    #[must_use]
    pub(crate) fn freeze(&self, pids: &[u32]) -> Frozen<'_> {
        for pid in pids {
            std::fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
        }
        self.set("FROZEN");
        let is_frozen = |pid: &u32| state_of(*pid) == "D";
        let frozen = Frozen(Box::new(|| self.set("THAWED")));
        super::eventually("the processes are frozen", || pids.iter().all(is_frozen));
        frozen
    }

    fn set(&self, state: &str) {
        std::fs::write(self.0.join("freezer.state"), state).unwrap();
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let is_removed = || std::fs::remove_dir(&self.0).is_ok();
        super::eventually("the frozen processes are gone", is_removed);
    }
}

/// Something that stands still until this is dropped.
pub(crate) struct Frozen<'a>(Box<dyn Fn() + 'a>);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The letter of a process's state; empty if there is none.
fn state_of(pid: u32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.unwrap_or_default().trim().chars().take(1).collect()
}

/// Whether SIGKILL waits for a process.
pub(crate) fn is_killed(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["SigPnd:", "ShdPnd:"].iter().any(|name| {
        let pending = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        u64::from_str_radix(pending.trim(), 16).unwrap() & (1 << 8) != 0
    })
}

/// A small file system in a file, whose writers can be stopped.
pub(crate) struct TestDisk {
    _image: tempfile::NamedTempFile,
    mount: tempfile::TempDir,
}

impl TestDisk {
    /// `None`, with a message, where none can be mounted.
    pub(crate) fn mount() -> Option<Self> {
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(64 << 20).unwrap();
        let mount = tempfile::tempdir().unwrap();
        let is_mounted = call("mkfs.ext4", &[Path::new("-q"), image.path()])
            && call("mount", &[Path::new("-o"), Path::new("loop"), image.path(), mount.path()]);
        if !is_mounted {
            println!("SKIPPED: a disk that does not answer needs root, mkfs.ext4 and loop devices");
            return None;
        }
        Some(Self { _image: image, mount })
    }

    pub(crate) fn path(&self) -> &Path {
        self.mount.path()
    }

    /// Who writes waits, and cannot be killed, until the result is dropped.
    #[must_use]
    pub(crate) fn freeze(&self) -> Frozen<'_> {
        assert!(call("fsfreeze", &[Path::new("-f"), self.path()]));
        Frozen(Box::new(|| assert!(call("fsfreeze", &[Path::new("-u"), self.path()]))))
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        super::eventually("the disk is unmounted", || call("umount", &[self.path()]));
    }
}

#[expect(clippy::disallowed_methods, reason = "the test calls programs of the system")]
fn call(program: &str, arguments: &[&Path]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}
