//! Files without a name that a program's processes hold: no count of a directory shows them.
//!
//! A file lives as long as a descriptor, a mapping, a running program or a message on its way refers to it.
//! The size of some cannot be read: then the count says how many bytes they may have at most.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::descendants::{Descendants, GuestProcess};
use super::kernel_use::in_flight;
use crate::tree::BLOCK_BYTES;

/// What the kernel appends to the path of a file that has lost its name.
const DELETED: &[u8] = b" (deleted)";

/// The bytes of files without a name on one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBytes {
    pub measured: u64,
    /// What files may have that cannot be measured, at most.
    pub unmeasured: u64,
}

impl HeldBytes {
    /// Of a program whose directory is `root`. With `max_file_bytes`, its largest file, mappings count, too:
    /// reading them may wait for the program.
    pub(super) fn of(guest: &Descendants, root: impl AsFd, device: u64, max_file_bytes: Option<u64>) -> Self {
        let root = std::fs::read_link(format!("/proc/self/fd/{}", root.as_fd().as_raw_fd()));
        let (measured, unmeasured) = (BTreeMap::new(), BTreeSet::new());
        let root = root.unwrap_or_default().to_string_lossy().into_owned();
        let mut files = HeldFiles { root, device, measured, unmeasured, has_hidden: false };
        for (index, process) in guest.processes.iter().enumerate() {
            let denied =
                files.add_process(process, max_file_bytes.is_some()).is_err_and(|error| is_denied(&error));
            // The first process runs our own code, or cannot forbid the look.
            files.has_hidden |= index > 0 && denied && process.is_alive();
        }
        let HeldFiles { measured, unmeasured, has_hidden, .. } = files;
        let unknown = unmeasured.iter().filter(|file| !measured.contains_key(file)).count();
        let unknown = u64::try_from(unknown).unwrap_or(u64::MAX);
        Self {
            measured: measured.into_values().fold(0, u64::saturating_add),
            unmeasured: if has_hidden {
                u64::MAX
            } else {
                unknown.saturating_mul(max_file_bytes.unwrap_or(0))
            },
        }
    }
}

/// Files by their inode.
struct HeldFiles {
    root: String,
    device: u64,
    /// Their bytes.
    measured: BTreeMap<u64, u64>,
    /// Those that are mapped, and only a privileged server can measure.
    unmeasured: BTreeSet<u64>,
    /// Descriptors are in flight, or a process is unreadable: any number of files.
    has_hidden: bool,
}

impl HeldFiles {
    fn add_process(&mut self, process: &GuestProcess, with_mappings: bool) -> io::Result<()> {
        let Some(thread) = process.live_thread() else { return Ok(()) };
        for link in std::fs::read_dir(thread.join("fd"))?.flatten() {
            self.add_descriptor(thread, &link.path()).or_else(unless_gone)?;
        }
        self.add(&std::fs::metadata(thread.join("exe"))?);
        if !with_mappings {
            return Ok(());
        }
        let maps = std::fs::read(thread.join("maps"))?;
        let deleted = maps.split(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(DELETED));
        for line in deleted {
            self.add_mapping(process.pid, line);
        }
        Ok(())
    }

    fn add_descriptor(&mut self, thread: &Path, link: &Path) -> io::Result<()> {
        let file = std::fs::metadata(link)?;
        self.add(&file);
        if let (true, Some(number)) = (file.file_type().is_socket(), link.file_name()) {
            self.has_hidden |= in_flight(&std::fs::read(thread.join("fdinfo").join(number))?) > 0;
        }
        Ok(())
    }

    fn add(&mut self, file: &std::fs::Metadata) {
        if file.nlink() == 0 && file.is_file() && file.dev() == self.device {
            self.measured.insert(file.ino(), file.blocks().saturating_mul(BLOCK_BYTES));
        }
    }

    /// Adds the file of a line of `maps`: range, rights, offset, device, inode, path.
    fn add_mapping(&mut self, pid: i32, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let mut fields = line.split_ascii_whitespace();
        let (range, inode) = (fields.next(), fields.nth(3).and_then(|inode| inode.parse().ok()));
        let (Some(range), Some(inode)) = (range, inode) else { return };
        let is_below = !self.root.is_empty() && line.contains(&self.root);
        if !is_below || self.measured.contains_key(&inode) || self.unmeasured.contains(&inode) {
            return;
        }
        match std::fs::metadata(format!("/proc/{pid}/map_files/{range}")) {
            Ok(file) => self.add(&file),
            Err(_) => drop(self.unmeasured.insert(inode)),
        }
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// A descriptor may be closed, and a process may exit, while it is looked at.
fn unless_gone(error: io::Error) -> io::Result<()> {
    if is_denied(&error) { Err(error) } else { Ok(()) }
}
