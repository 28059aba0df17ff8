//! Counts a directory tree: bounded, without following links, while others may change it.

use super::beneath::{kind, open_directory, size, stat_at};
use rustix::fs::{Dir, FileType};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Maximum path length below an open directory, bytes; longer paths start at a new anchor.
const MAX_PATH: usize = 1_024;
/// Maximum anchor descriptors of one walk.
const MAX_ANCHORS: usize = 128;

/// Size of a tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TreeCount {
    /// Regular files; hard links count separately.
    pub(super) files: u64,
    /// Directories without the root.
    pub(super) directories: u64,
    /// Links, pipes and sockets.
    pub(super) others: u64,
    /// Bytes in files.
    pub(super) bytes: u64,
    /// The walk stopped early, so the numbers are too low.
    pub(super) is_cut: bool,
}

impl TreeCount {
    /// All entries.
    pub(super) fn entries(&self) -> u64 {
        self.files + self.directories + self.others
    }
}

/// Position of a directory: a path below an open directory.
struct DirectoryPosition {
    anchor: Rc<OwnedFd>,
    path: CString,
}

impl DirectoryPosition {
    fn open(&self, name: &CStr) -> Option<(OwnedFd, CString)> {
        let path = CString::new([self.path.to_bytes(), name.to_bytes()].join(&b'/')).ok()?;
        // Not counted if it was removed or moved since.
        open_directory(&*self.anchor, path.as_c_str()).ok().map(|directory| (directory, path))
    }
}

/// Counts the tree below `root`. Stops early after `limit` entries or when the tree is too deep.
pub(super) fn count(root: &OwnedFd, limit: u64) -> rustix::io::Result<TreeCount> {
    let mut walk = TreeWalk { count: TreeCount::default(), limit, pending: Vec::new(), anchors: 0 };
    let root = Rc::new(open_directory(root, ".")?);
    walk.enter(&root, DirectoryPosition { anchor: Rc::clone(&root), path: c".".to_owned() });
    while !walk.count.is_cut {
        let Some((position, name)) = walk.pending.pop() else { break };
        let Some((directory, path)) = position.open(&name) else { continue };
        let directory = Rc::new(directory);
        let position = if path.to_bytes().len() > MAX_PATH {
            walk.anchors += 1;
            DirectoryPosition { anchor: Rc::clone(&directory), path: c".".to_owned() }
        } else {
            DirectoryPosition { anchor: Rc::clone(&position.anchor), path }
        };
        walk.count.is_cut = walk.anchors > MAX_ANCHORS;
        walk.enter(&directory, position);
    }
    Ok(walk.count)
}

struct TreeWalk {
    count: TreeCount,
    limit: u64,
    pending: Vec<(Rc<DirectoryPosition>, CString)>,
    anchors: usize,
}

impl TreeWalk {
    fn enter(&mut self, directory: &OwnedFd, position: DirectoryPosition) {
        let position = Rc::new(position);
        let Ok(entries) = Dir::read_from(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.count.entries() >= self.limit {
                self.count.is_cut = true;
                return;
            }
            if self.add(directory, name, entry.file_type()) {
                self.pending.push((Rc::clone(&position), name.to_owned()));
            }
        }
    }

    /// Counts one entry. Returns whether it is a directory.
    fn add(&mut self, directory: &OwnedFd, name: &CStr, reported_type: FileType) -> bool {
        let (kind, bytes) = match reported_type {
            FileType::RegularFile | FileType::Unknown => match stat_at(directory, name) {
                Ok(stat) => (kind(&stat), size(&stat)),
                Err(_) => return false, // removed since
            },
            other => (other, 0),
        };
        match kind {
            FileType::Directory => self.count.directories += 1,
            FileType::RegularFile => {
                self.count.files += 1;
                self.count.bytes = self.count.bytes.saturating_add(bytes);
            }
            _ => self.count.others += 1,
        }
        kind == FileType::Directory
    }
}
