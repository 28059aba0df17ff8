//! Project rows. For their files see [`super::Workspaces`].

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};

/// Why a project was not stored. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProjectError {
    /// The user has `limits.projects` projects already (HTTP: 429).
    #[error("there are {limit} projects already (limits.projects); delete one first")]
    ProjectsFull {
        /// The limit.
        limit: u64,
    },
    /// Another project of the user has the name (HTTP: 400).
    #[error("the name is taken")]
    NameTaken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Position in the list: time of the last change, then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectCursor {
    /// Unix milliseconds.
    pub updated_at_ms: u64,
    /// Id of the project.
    pub id: ProjectId,
}

/// A page of projects, last changed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPage {
    /// The projects.
    pub projects: Vec<Project>,
    /// Whether more follow.
    pub has_more: bool,
    /// Number of all projects of the user.
    pub total: u64,
}

/// Stores projects.
///
/// The store knows every project directory: its name is reserved before the directory is created, and
/// released after it was removed. [`Projects::pending_removals`] lists the leftovers of a crash.
pub trait Projects: Send + Sync {
    /// Reserves a directory name for a new project: the wanted name, with a number when another project uses
    /// it. The project stays invisible and pending removal until [`Projects::create_project`]. Fails with
    /// [`ProjectError::ProjectsFull`] when the user has `limit` projects.
    fn reserve_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError>;
    /// Creates a project. A reserved one keeps its directory name; another one gets its name now. Fails with
    /// [`ProjectError::ProjectsFull`] when the user has `limit` projects, and with
    /// [`ProjectError::NameTaken`] when one of them has this name.
    fn create_project(&self, project: Project, limit: u64) -> Ticket<Project, ProjectError>;
    /// Changes name or description; `None` when the user has no such project.
    fn update_project(
        &self,
        user: UserId,
        id: ProjectId,
        name: Option<ProjectName>,
        description: Option<String>,
    ) -> Ticket<Option<Project>, ProjectError>;
    /// Deletes a project and all its conversations. The store remembers the directory until
    /// [`Projects::mark_removed`]. Returns the project, or `None` when the user has no such project.
    fn remove_project(&self, user: UserId, id: ProjectId) -> Ticket<Option<Project>>;
    /// Records that the directory of a deleted or never created project was removed.
    fn mark_removed(&self, project: Project) -> Ticket<()>;

    /// The project, or `None` when it is not this user's.
    fn project(&self, user: UserId, id: ProjectId) -> Result<Option<Project>, StoreError>;
    /// A page of a user's projects.
    fn projects(
        &self,
        user: UserId,
        before: Option<ProjectCursor>,
        limit: usize,
    ) -> Result<ProjectPage, StoreError>;
    /// All projects of a user, to add up their files.
    fn all_projects(&self, user: UserId) -> Result<Vec<Project>, StoreError>;
    /// Deleted and never created projects whose directories may still exist.
    fn pending_removals(&self) -> Result<Vec<Project>, StoreError>;
}
