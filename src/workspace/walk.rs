//! Names below a directory. The walk goes by paths, which commands of jobs may change, so every name must be
//! opened again beneath the workspace's descriptor.

use crate::domain::project::OWN_NAME;
use crate::domain::secret_names::is_secret_name;
use ignore::{DirEntry, WalkBuilder};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Options of a walk.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WalkOptions {
    /// Whether to include dot names.
    pub(super) with_hidden: bool,
    /// Whether to leave out names of secrets.
    pub(super) hides_secrets: bool,
    /// Maximum depth; 1 for direct children.
    pub(super) depth: Option<usize>,
}

/// Paths of all files and directories below a directory, and whether each is a directory. Follows no links
/// and enters no other file system. Skips unreadable and removed entries.
pub(super) fn names_below(
    directory: &OwnedFd,
    options: WalkOptions,
) -> impl Iterator<Item = (String, bool)> + use<> {
    let root = super::beneath::own_path(directory);
    // The dot makes the root the directory itself, not the link to it.
    let walk = WalkBuilder::new(format!("{root}/."))
        .standard_filters(false)
        .hidden(!options.with_hidden)
        .max_depth(options.depth)
        .follow_links(false)
        .same_file_system(true)
        .filter_entry(move |entry| {
            let name = entry.file_name();
            let is_secret = || entry.depth() > 0 && name.to_str().is_some_and(is_secret_name);
            name != OWN_NAME && !(options.hides_secrets && is_secret())
        })
        .build();
    walk.filter_map(move |entry| named(&entry.ok()?, &root))
}

fn named(entry: &DirEntry, root: &str) -> Option<(String, bool)> {
    let kind = entry.file_type().filter(|kind| kind.is_file() || kind.is_dir())?;
    let name = entry.path().strip_prefix(Path::new(root)).ok()?.to_str()?;
    (!name.is_empty()).then(|| (name.to_owned(), kind.is_dir()))
}
