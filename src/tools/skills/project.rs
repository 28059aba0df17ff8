//! The skills of a project: its directory `skills`, read like any of its files.

use super::scan::RejectedSkill;
use super::skill::SkillError;
use crate::domain::id::ProjectId;
use crate::ports::{
    DirectoryListing, FileEntry, FileError, FileKind, ReadOnlyFiles, WorkspaceFolder, WorkspaceOwner,
};
use std::collections::HashSet;
use std::fs::File;
use std::sync::{Mutex, PoisonError};

/// The directory of a project's skills.
pub(super) const PROJECT_DIRECTORY: &str = "skills";
/// Skipped folders that were logged; with more, the log begins to repeat itself.
const MAX_LOGGED: usize = 1_000;

/// The directory of a project's skills.
pub(super) struct ProjectSkillFiles(pub(super) Box<dyn WorkspaceFolder>);

impl ReadOnlyFiles for ProjectSkillFiles {
    fn entries(&self) -> Result<Vec<(String, FileKind)>, FileError> {
        let listing = self.0.find(PROJECT_DIRECTORY, "*")?;
        Ok(listing.directories.into_iter().map(|(name, _)| (name, FileKind::Directory)).collect())
    }

    fn files_below(&self, path: &str) -> Result<DirectoryListing, FileError> {
        let mut listing = self.0.find(&format!("{PROJECT_DIRECTORY}/{path}"), "**")?;
        let below = |path: &str| path.strip_prefix(PROJECT_DIRECTORY)?.strip_prefix('/').map(str::to_owned);
        let entry = |file: FileEntry| Some(FileEntry { path: below(&file.path)?, ..file });
        listing.files = listing.files.into_iter().filter_map(entry).collect();
        Ok(listing)
    }

    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        self.0.open(&format!("{PROJECT_DIRECTORY}/{path}"))
    }
}

/// Logs each skipped folder of a project once.
#[derive(Default)]
pub(super) struct SkippedLog(Mutex<HashSet<(ProjectId, String, String)>>);

impl SkippedLog {
    pub(super) fn log(&self, owner: WorkspaceOwner, rejected: &[RejectedSkill]) {
        let Some(project) = owner.project.filter(|_| !rejected.is_empty()) else { return };
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for RejectedSkill { folder, error } in rejected {
            if logged.len() >= MAX_LOGGED {
                logged.clear();
            }
            if logged.insert((project, folder.clone(), error.to_string())) {
                log_skipped(project, folder, error);
            }
        }
    }
}

fn log_skipped(project: ProjectId, folder: &str, error: &SkillError) {
    tracing::warn!(%project, folder, %error, "folder in skills/ of a project skipped");
}
