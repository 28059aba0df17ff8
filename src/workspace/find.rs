//! Finds files by glob. Each entry is opened again beneath the workspace before it is listed.

use super::beneath::{kind, open, open_directory, size};
use super::errors::file_error;
use super::glob::Glob;
use super::list::MAX_LISTED;
use super::matches::Deadline;
use super::paths::WorkspacePath;
use super::walk::{WalkOptions, names_below};
use crate::ports::{DirectoryListing, FileEntry, FileError, GlobQuery};
use rustix::fs::{FileType, OFlags};
use std::os::fd::OwnedFd;

/// Maximum names that are examined.
const MAX_SEEN: usize = 200_000;

/// Lists matching entries below a directory of a workspace.
pub(super) fn find(
    workspace: &OwnedFd,
    query: &GlobQuery,
    deadline: Deadline<'_>,
) -> Result<DirectoryListing, FileError> {
    let (start, glob) = (WorkspacePath::parse(&query.path)?, Glob::parse(&query.glob)?);
    let directory =
        open_directory(workspace, start.target()).map_err(|error| file_error(error, start.target()))?;
    let options = WalkOptions {
        with_hidden: query.with_hidden,
        hides_secrets: query.hides_secrets,
        depth: glob.depth(),
    };
    let mut listing = DirectoryListing::default();
    for (seen, (name, _)) in names_below(&directory, options).enumerate() {
        let listed = listing.files.len() + listing.directories.len();
        listing.is_cut = seen >= MAX_SEEN || listed >= MAX_LISTED || deadline.is_over();
        if listing.is_cut {
            break;
        }
        // Skip paths that a client could not request.
        let path = WorkspacePath::parse(&start.child(&name)).ok().filter(|_| glob.fits(&name));
        if let Some(path) = path {
            add(&mut listing, workspace, &path);
        }
    }
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.directories.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    Ok(listing)
}

fn add(listing: &mut DirectoryListing, workspace: &OwnedFd, path: &WorkspacePath) {
    let (Ok((_, name)), path) = (path.entry("listed"), path.as_str()) else { return };
    // Check the type again on a descriptor beneath the workspace.
    let Ok(stat) = open(workspace, path, OFlags::PATH).and_then(rustix::fs::fstat) else { return };
    match kind(&stat) {
        FileType::Directory => listing.directories.push((name.to_owned(), path.to_owned())),
        FileType::RegularFile => {
            listing.files.push(FileEntry { name: name.to_owned(), path: path.to_owned(), size: size(&stat) });
        }
        _ => {}
    }
}
