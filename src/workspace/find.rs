//! Finds files by glob. Each entry is opened again beneath the project before it is listed.

use super::beneath::{kind, open, open_directory, size};
use super::errors::file_error;
use super::glob::Glob;
use super::list::MOST_LISTED;
use super::matches::Deadline;
use super::paths::ProjectPath;
use super::walk::{WalkOptions, names_below};
use crate::ports::{DirectoryListing, FileEntry, FileError, GlobQuery};
use rustix::fs::{FileType, OFlags};
use std::os::fd::OwnedFd;

/// Maximum names that are examined.
const MOST_SEEN: usize = 200_000;

/// Lists matching entries below a directory of a project.
pub(super) fn find(
    project: &OwnedFd,
    query: &GlobQuery,
    until: Deadline<'_>,
) -> Result<DirectoryListing, FileError> {
    let (start, glob) = (ProjectPath::parse(&query.path)?, Glob::parse(&query.glob)?);
    let directory =
        open_directory(project, start.target()).map_err(|error| file_error(error, start.target()))?;
    let terms = WalkOptions { with_hidden: query.with_hidden, depth: glob.depth() };
    let mut listing = DirectoryListing::default();
    for (seen, (name, _)) in names_below(&directory, terms).enumerate() {
        let listed = listing.files.len() + listing.directories.len();
        listing.is_cut = seen >= MOST_SEEN || listed >= MOST_LISTED || until.is_over();
        if listing.is_cut {
            break;
        }
        // A path that nobody could ask for is not told either.
        let path = ProjectPath::parse(&start.child(&name)).ok().filter(|_| glob.fits(&name));
        if let Some(path) = path {
            add(&mut listing, project, &path);
        }
    }
    listing.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    listing.directories.sort_unstable_by(|a, b| a.1.cmp(&b.1));
    Ok(listing)
}

fn add(listing: &mut DirectoryListing, project: &OwnedFd, path: &ProjectPath) {
    let (Ok((_, name)), path) = (path.entry("listed"), path.as_str()) else { return };
    // Neither the walk's word nor the path's is taken for it.
    let Ok(stat) = open(project, path, OFlags::PATH).and_then(rustix::fs::fstat) else { return };
    match kind(&stat) {
        FileType::Directory => listing.directories.push((name.to_owned(), path.to_owned())),
        FileType::RegularFile => {
            listing.files.push(FileEntry { name: name.to_owned(), path: path.to_owned(), size: size(&stat) });
        }
        _ => {}
    }
}
