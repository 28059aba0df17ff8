//! Projects as rows. Owns the trait and the values that cross it; refuses files (see [`super::Workspaces`]).

use super::store::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{Project, ProjectName};

/// A place in the list of projects: when it last changed, then its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectCursor {
    /// Unix milliseconds.
    pub updated_at_ms: u64,
    /// Which.
    pub id: ProjectId,
}

/// A page of projects, the one that changed last first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPage {
    /// The projects.
    pub projects: Vec<Project>,
    /// Whether more would follow.
    pub has_more: bool,
    /// How many the user has altogether.
    pub total: u64,
}

/// Projects of users.
///
/// A directory is never without somebody who knows it: its name is reserved before it is made, and kept in mind until it has
/// been removed. What a crash leaves behind is told by [`Projects::unswept`].
pub trait Projects: Send + Sync {
    /// Gives a project in the making its directory's name, unless its user has `most` projects already
    /// ([`StoreError::ProjectsFull`]): the wanted one, with a number behind it where another project has it, or one whose
    /// files are still being removed. Nobody sees the project, and it counts as unswept, until it is founded.
    fn reserve_project(&self, project: Project, most: u64) -> Ticket<Project>;
    /// Stores a project, unless its user has `most` of them already ([`StoreError::ProjectsFull`]) or one of this name
    /// ([`StoreError::NameTaken`]). One that was reserved keeps its directory's name; another one gets it now, as by
    /// [`Projects::reserve_project`].
    fn create_project(&self, project: Project, most: u64) -> Ticket<Project>;
    /// Renames or describes a project; `None` when the user has no such project.
    fn update_project(
        &self,
        user: UserId,
        id: ProjectId,
        name: Option<ProjectName>,
        description: Option<String>,
    ) -> Ticket<Option<Project>>;
    /// Forgets a project and all its conversations; its directory is kept in mind until [`Projects::swept`]. The project as
    /// it was; `None` when the user has no such project.
    fn remove_project(&self, user: UserId, id: ProjectId) -> Ticket<Option<Project>>;
    /// The directory of a forgotten project, or of one that was reserved in vain, is gone.
    fn mark_removed(&self, project: Project) -> Ticket<()>;

    /// The project, if it is this user's.
    fn project(&self, user: UserId, id: ProjectId) -> Result<Option<Project>, StoreError>;
    /// A page of a user's projects.
    fn projects(
        &self,
        user: UserId,
        before: Option<ProjectCursor>,
        limit: usize,
    ) -> Result<ProjectPage, StoreError>;
    /// All projects of a user, for adding up their files.
    fn all_projects(&self, user: UserId) -> Result<Vec<Project>, StoreError>;
    /// Projects whose directories may be there while they are not: forgotten ones, and those in the making.
    fn pending_removals(&self) -> Result<Vec<Project>, StoreError>;
}
