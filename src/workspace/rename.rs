//! Moves a file or a directory within a workspace. Nothing is replaced.

use super::beneath::{open_directory, rename_new, stat_at, sync_names};
use super::errors::file_error;
use super::paths::WorkspacePath;
use crate::ports::FileError;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Moves it; `provide` opens the directory that it comes into, and makes it if it is missing.
pub(super) fn rename(
    workspace: &OwnedFd,
    from: &str,
    to: &str,
    provide: impl FnOnce(&str) -> Result<OwnedFd, FileError>,
) -> Result<(), FileError> {
    let (from, to) = (WorkspacePath::parse(from)?, WorkspacePath::parse(to)?);
    let ((from_parent, from_name), (to_parent, to_name)) = (from.entry("moved")?, to.entry("replaced")?);
    if to.is_below(&from) {
        return Err(into_itself());
    }
    let fail = |error| file_error(error, from.target());
    let from_parent = open_directory(workspace, from_parent).map_err(fail)?;
    stat_at(&from_parent, from_name).map_err(fail)?; // check before creating directories
    let to_parent = provide(to_parent)?;
    rename_new((&from_parent, from_name), (&to_parent, to_name)).map_err(|error| match error {
        Errno::EXIST => file_error(error, to.target()),
        Errno::INVAL => into_itself(),
        _ => fail(error),
    })?;
    sync_names(&to_parent).and_then(|()| sync_names(&from_parent)).map_err(fail)
}

fn into_itself() -> FileError {
    FileError::BadPath("a directory cannot be moved into itself".to_owned())
}
