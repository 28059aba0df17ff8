//! The directories of users above their workspaces. Those with another name, of an earlier version or of
//! another key, get the right one before the first use.

use super::beneath::{make_and_open, open_directory, rename_new, sync_names};
use crate::domain::id::UserId;
use crate::domain::project::OWN_NAME;
use crate::domain::workspace::{UserDirectories, Workspace, user_of_directory};
use rustix::fs::{AtFlags, Dir};
use rustix::io::Errno;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The names of users' directories, and the areas in which all directories have theirs.
pub(super) struct UserAreas {
    names: UserDirectories,
    renamed: Mutex<HashSet<&'static str>>,
}

impl UserAreas {
    pub(super) fn new(names: UserDirectories) -> Self {
        Self { names, renamed: Mutex::default() }
    }

    /// The name of a user's directory.
    pub(super) fn name(&self, user: UserId) -> String {
        self.names.name(user)
    }

    /// Opens an area below its root.
    pub(super) fn open(&self, root: OwnedFd, area: &'static str) -> rustix::io::Result<OwnedFd> {
        let opened = if area.is_empty() { root } else { open_directory(root, area)? };
        self.rename_once(&opened, area);
        Ok(opened)
    }

    /// Opens the user's directory of a workspace.
    pub(super) fn open_user(&self, root: OwnedFd, workspace: &Workspace) -> rustix::io::Result<OwnedFd> {
        open_directory(self.open(root, workspace.area())?, self.name(workspace.user).as_str())
    }

    /// The same, creating what is missing.
    pub(super) fn provide_user(&self, root: OwnedFd, workspace: &Workspace) -> rustix::io::Result<OwnedFd> {
        let area = workspace.area();
        let opened = if area.is_empty() { root } else { make_and_open(root, area)? };
        self.rename_once(&opened, area);
        make_and_open(opened, &self.name(workspace.user))
    }

    /// The path of a workspace.
    pub(super) fn path(&self, root: &Path, workspace: &Workspace) -> PathBuf {
        root.join(workspace.area()).join(self.name(workspace.user)).join(&workspace.directory)
    }

    /// All other threads wait meanwhile.
    fn rename_once(&self, opened: &OwnedFd, area: &'static str) {
        let mut renamed = self.renamed.lock().unwrap_or_else(PoisonError::into_inner);
        if !renamed.insert(area) {
            return;
        }
        if let Err(error) = self.rename_all(opened) {
            tracing::warn!(area, %error, "cannot list the directories of users");
        }
    }

    fn rename_all(&self, area: &OwnedFd) -> rustix::io::Result<()> {
        let mut has_renamed = false;
        for old in names(area)? {
            let Some(new) = user_of_directory(&old).map(|user| self.name(user)).filter(|new| *new != old)
            else {
                continue;
            };
            match rename(area, &old, &new) {
                Ok(()) => has_renamed = true,
                Err(error) => {
                    tracing::warn!(directory = old, %error, "cannot rename the directory of a user");
                }
            }
        }
        if has_renamed { sync_names(area) } else { Ok(()) }
    }
}

fn rename(area: &OwnedFd, old: &str, new: &str) -> rustix::io::Result<()> {
    match rename_new((area, old), (area, new)) {
        Err(Errno::EXIST) => merge(area, old, area, new),
        // Another node was faster.
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Moves the entries of a directory into another one and removes it. An entry stays if its name is taken.
fn merge(from: &OwnedFd, old: &str, to: &OwnedFd, new: &str) -> rustix::io::Result<()> {
    let (source, target) = (open_directory(from, old)?, open_directory(to, new)?);
    for name in names(&source)? {
        match rename_new((&source, name.as_str()), (&target, name.as_str())) {
            Err(Errno::EXIST) if name == OWN_NAME => merge(&source, &name, &target, &name)?,
            Ok(()) | Err(Errno::EXIST | Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    sync_names(&target)?;
    rustix::fs::unlinkat(from, old, AtFlags::REMOVEDIR)
}

/// The names in a directory, without those that are not UTF-8.
pub(super) fn names(directory: &OwnedFd) -> rustix::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_str().unwrap_or_default();
        if !matches!(name, "" | "." | "..") {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
