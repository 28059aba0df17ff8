//! Projects as rows.

use super::RedbStore;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};
use crate::ports::{ProjectPage, ProjectPlace, Projects, StoreError, Ticket};

impl Projects for RedbStore {
    fn found_project(&self, _project: Project, _most: u64) -> Ticket<Project> {
        Ticket::refused(StoreError::Closed)
    }
    fn amend_project(
        &self,
        _user: UserId,
        _id: ProjectId,
        _name: Option<ProjectName>,
        _description: Option<String>,
    ) -> Ticket<Option<Project>> {
        Ticket::refused(StoreError::Closed)
    }
    fn remove_project(&self, _user: UserId, _id: ProjectId) -> Ticket<Option<Project>> {
        Ticket::refused(StoreError::Closed)
    }
    fn swept(&self, _project: Project) -> Ticket<()> {
        Ticket::refused(StoreError::Closed)
    }
    fn project(&self, _user: UserId, _id: ProjectId) -> Result<Option<Project>, StoreError> {
        Ok(None)
    }
    fn projects(
        &self,
        _user: UserId,
        _before: Option<ProjectPlace>,
        _limit: usize,
    ) -> Result<ProjectPage, StoreError> {
        Err(StoreError::Closed)
    }
    fn all_projects(&self, _user: UserId) -> Result<Vec<Project>, StoreError> {
        Err(StoreError::Closed)
    }
    fn unswept(&self) -> Result<Vec<Project>, StoreError> {
        Ok(Vec::new())
    }
}
