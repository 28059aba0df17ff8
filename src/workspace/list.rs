//! Lists a directory without dot names, links, pipes, sockets, and names that no path can express.

use super::beneath::{kind, open_directory, size, stat_at};
use super::errors::file_error;
use super::paths::{WorkspacePath, is_name};
use crate::ports::{DirectoryListing, FileEntry, FileError};
use rustix::fs::{Dir, FileType};
use std::os::fd::OwnedFd;

/// Maximum entries of a list.
pub(super) const MAX_LISTED: usize = 10_000;
/// Maximum names that are examined, including those left out.
const MAX_SEEN: usize = 100_000;

/// Lists a directory of a workspace.
pub(super) fn list(workspace: &OwnedFd, path: &WorkspacePath) -> Result<DirectoryListing, FileError> {
    let fail = |error| file_error(error, path.target());
    let directory = open_directory(workspace, path.target()).map_err(fail)?;
    let mut listing = DirectoryListing::default();
    for (seen, entry) in Dir::read_from(&directory).map_err(fail)?.enumerate() {
        let entry = entry.map_err(fail)?;
        listing.is_cut = seen >= MAX_SEEN || listing.files.len() + listing.directories.len() >= MAX_LISTED;
        if listing.is_cut {
            break;
        }
        let shown = entry.file_name().to_str().ok().filter(|name| !name.starts_with('.') && is_name(name));
        if let Some(name) = shown {
            add(&mut listing, &directory, path, (name, entry.file_type()));
        }
    }
    listing.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    listing.directories.sort_unstable();
    Ok(listing)
}

fn add(
    listing: &mut DirectoryListing,
    directory: &OwnedFd,
    path: &WorkspacePath,
    (name, reported_type): (&str, FileType),
) {
    let child = path.child(name);
    if reported_type == FileType::Directory {
        listing.directories.push((name.to_owned(), child));
        return;
    }
    let Ok(stat) = stat_at(directory, name) else { return }; // removed since
    match kind(&stat) {
        FileType::Directory => listing.directories.push((name.to_owned(), child)),
        FileType::RegularFile => {
            listing.files.push(FileEntry { name: name.to_owned(), path: child, size: size(&stat) });
        }
        _ => {}
    }
}
