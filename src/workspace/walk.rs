//! The names below a directory. Owns which are passed over; refuses to be believed: the walk goes by paths, which commands
//! of jobs may bend while it runs, so whoever gets a name asks for it anew beneath the project's descriptor.

use crate::domain::project::OWN_NAME;
use ignore::{DirEntry, WalkBuilder};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How a walk goes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WalkTerms {
    /// Dot names too.
    pub(super) with_hidden: bool,
    /// Directories below directories, 1 for the first one's own names.
    pub(super) depth: Option<usize>,
}

/// Everything below a directory, by path from there, and whether it is a directory: what is neither file nor directory is
/// left out, no link is followed, and no other file system entered. What has vanished, or cannot be read, is passed over.
pub(super) fn names_below(
    directory: &OwnedFd,
    terms: WalkTerms,
) -> impl Iterator<Item = (String, bool)> + use<> {
    let root = super::beneath::own_path(directory);
    // With the dot it is the directory itself, not the link to it.
    let walk = WalkBuilder::new(format!("{root}/."))
        .standard_filters(false)
        .hidden(!terms.with_hidden)
        .max_depth(terms.depth)
        .follow_links(false)
        .same_file_system(true)
        .filter_entry(|entry| entry.file_name() != OWN_NAME)
        .build();
    walk.filter_map(move |entry| named(&entry.ok()?, &root))
}

fn named(entry: &DirEntry, root: &str) -> Option<(String, bool)> {
    let kind = entry.file_type().filter(|kind| kind.is_file() || kind.is_dir())?;
    let name = entry.path().strip_prefix(Path::new(root)).ok()?.to_str()?;
    (!name.is_empty()).then(|| (name.to_owned(), kind.is_dir()))
}
