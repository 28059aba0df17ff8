//! The directories of users, whose names no test can guess.

use std::path::{Path, PathBuf};

/// The directory of a user among those of all users, as the server has named it. One that does not exist yet
/// has the name of earlier versions, which the next start replaces.
pub(crate) fn user_directory(all: &Path, user: u32) -> PathBuf {
    let start = format!("user_{user}-");
    let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
    let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    all.join(names.find(|name| name.starts_with(&start)).unwrap_or_else(|| format!("user_{user}")))
}
