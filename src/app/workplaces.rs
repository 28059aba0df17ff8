//! Where jobs work: joins the rows of projects with their directories.

use crate::domain::id::{ProjectId, UserId};
use crate::ports::{ProjectDirectories, Projects, StoreError, Workspaces};
use std::path::PathBuf;
use std::sync::Arc;

/// Projects and their files.
pub(super) struct ProjectPlaces {
    pub(super) projects: Arc<dyn Projects>,
    pub(super) workspaces: Arc<dyn Workspaces>,
}

impl ProjectDirectories for ProjectPlaces {
    fn project_directory(&self, user: UserId, project: ProjectId) -> Result<Option<PathBuf>, StoreError> {
        Ok(self.projects.project(user, project)?.map(|project| self.workspaces.absolute(&project)))
    }
}
