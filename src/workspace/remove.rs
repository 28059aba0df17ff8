//! Removes a whole tree without following links and without recursion, with two descriptors and a thousand
//! names at most: subdirectories are moved up, then removed. For trees in the staging directory, which no
//! other program can reach.

use super::beneath::{kind, open_directory, rename_new, stat_at, unlock};
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

/// Names in memory at once; a directory may have millions.
const NAMES_AT_ONCE: usize = 1_024;
/// Maximum attempts to find a free name.
const MOST_COLLISIONS: u32 = 1_000_000;

/// Removes an entry with all its content; succeeds when it does not exist. Returns the first error if
/// something is left.
pub(super) fn remove_tree(at: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::NOENT) => return Ok(()),
        other => return other,
    }
    let top = match open_usable(at, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let mut moved = 0;
    take_all(&top, &mut |directory, name, is_directory| {
        if !is_directory {
            return rustix::fs::unlinkat(directory, name, AtFlags::empty());
        }
        let inner = open_usable(directory, name)?;
        take_all(&inner, &mut |inner, name, is_directory| {
            if is_directory {
                move_up(inner, name, &top, &mut moved)
            } else {
                rustix::fs::unlinkat(inner, name, AtFlags::empty())
            }
        })?;
        rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)
    })?;
    match rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR) {
        Err(Errno::NOENT) => Ok(()), // another thread removes it as well
        other => other,
    }
}

/// Removes entries in rounds of bounded size until none is left. Stops with the first error once a round
/// removes nothing.
fn take_all(
    directory: &OwnedFd,
    take_away: &mut dyn FnMut(&OwnedFd, &CStr, bool) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    loop {
        let names = some_names(directory)?;
        if names.is_empty() {
            return Ok(());
        }
        let mut first_error = None;
        let mut taken = 0;
        for (name, is_directory) in names {
            match take_away(directory, &name, is_directory) {
                Ok(()) | Err(Errno::NOENT) => taken += 1,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if let Some(error) = first_error.filter(|_| taken == 0) {
            return Err(error);
        }
    }
}

fn some_names(directory: &OwnedFd) -> rustix::io::Result<Vec<(CString, bool)>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => stat_at(directory, name).map_or(FileType::Unknown, |stat| kind(&stat)),
            known => known,
        };
        names.push((name.to_owned(), kind == FileType::Directory));
        if names.len() == NAMES_AT_ONCE {
            break;
        }
    }
    Ok(names)
}

fn move_up(from: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> rustix::io::Result<()> {
    for _ in 0..MOST_COLLISIONS {
        *moved += 1;
        let target = format!(".moved-{moved}");
        match rename_new((from, name), (top, target.as_str())) {
            Err(Errno::EXIST) => {}
            // Without write permission on the directory itself its `..` cannot change.
            Err(Errno::ACCESS) => unlock(from, name)?,
            other => return other,
        }
    }
    Err(Errno::EXIST)
}

/// Opens a directory without permissions. Removing entries needs write and search rights besides read.
fn open_usable<P: rustix::path::Arg + Copy>(at: &OwnedFd, name: P) -> rustix::io::Result<OwnedFd> {
    unlock(at.as_fd(), name)?;
    open_directory(at, name)
}
