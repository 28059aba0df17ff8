//! What a tree holds. Owns a walk that is bounded, follows no link and leaves the tree nowhere, while others change it;
//! refuses to change anything itself.

use super::beneath::{kind, look, open_directory, size};
use rustix::fs::{Dir, FileType};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// Directories are opened by paths no longer than this from a directory above that is held open, bytes.
const LONGEST_PATH: usize = 1_024;
/// Descriptors that one walk may hold. No program works in a tree so deep that they do not suffice.
const MOST_ANCHORS: usize = 128;

/// What a walk found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Regular files, each of its names.
    pub(super) files: u64,
    /// Directories, the tree's own aside.
    pub(super) directories: u64,
    /// All else: links, pipes, sockets.
    pub(super) others: u64,
    /// Sizes of the files, bytes.
    pub(super) bytes: u64,
    /// The walk ended early: there is more.
    pub(super) is_cut: bool,
}

impl Count {
    /// Everything that has a name.
    pub(super) fn entries(&self) -> u64 {
        self.files + self.directories + self.others
    }
}

/// Where a directory was found: below what is held open.
struct Place {
    anchor: Rc<OwnedFd>,
    path: CString,
}

impl Place {
    fn open(&self, name: &CStr) -> Option<(OwnedFd, CString)> {
        let path = CString::new([self.path.to_bytes(), name.to_bytes()].join(&b'/')).ok()?;
        // Gone or moved since it was seen: then it is not counted.
        open_directory(&*self.anchor, path.as_c_str()).ok().map(|directory| (directory, path))
    }
}

/// Counts what is below a directory; ends early with more than `most` entries, or where it is too deep.
pub(super) fn count(root: &OwnedFd, most: u64) -> rustix::io::Result<Count> {
    let mut walk = Walk { count: Count::default(), most, pending: Vec::new(), anchors: 0 };
    let root = Rc::new(open_directory(root, ".")?);
    walk.enter(&root, Place { anchor: Rc::clone(&root), path: c".".to_owned() });
    while !walk.count.is_cut {
        let Some((place, name)) = walk.pending.pop() else { break };
        let Some((directory, path)) = place.open(&name) else { continue };
        let directory = Rc::new(directory);
        let place = if path.to_bytes().len() > LONGEST_PATH {
            walk.anchors += 1;
            Place { anchor: Rc::clone(&directory), path: c".".to_owned() }
        } else {
            Place { anchor: Rc::clone(&place.anchor), path }
        };
        walk.count.is_cut = walk.anchors > MOST_ANCHORS;
        walk.enter(&directory, place);
    }
    Ok(walk.count)
}

struct Walk {
    count: Count,
    most: u64,
    pending: Vec<(Rc<Place>, CString)>,
    anchors: usize,
}

impl Walk {
    fn enter(&mut self, directory: &OwnedFd, place: Place) {
        let place = Rc::new(place);
        let Ok(entries) = Dir::read_from(directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if self.count.entries() >= self.most {
                self.count.is_cut = true;
                return;
            }
            if self.add(directory, name, entry.file_type()) {
                self.pending.push((Rc::clone(&place), name.to_owned()));
            }
        }
    }

    /// Counts one entry; says whether it is a directory.
    fn add(&mut self, directory: &OwnedFd, name: &CStr, told: FileType) -> bool {
        let (kind, bytes) = match told {
            FileType::RegularFile | FileType::Unknown => match look(directory, name) {
                Ok(stat) => (kind(&stat), size(&stat)),
                Err(_) => return false, // gone since
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
