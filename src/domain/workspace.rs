//! Workspaces: the directories for files of jobs. A project has one, and a job without a project has one of
//! its own.

use super::id::{JobId, ProjectId, UserId};
use super::project::Project;
use std::fmt;

/// The directory above the directories of jobs.
pub const JOBS: &str = "jobs";
/// The directory above the memories of users.
const MEMORIES: &str = "memories";
/// The directory of a user's memory in that of the user.
const MEMORY: &str = "own";

/// The owner of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkspaceId {
    /// A project; its workspace lives as long as the project.
    Project(ProjectId),
    /// A job; its workspace lives as long as the job, through retries and restarts.
    Job(JobId),
    /// The memory of a user.
    Memory(UserId),
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Project(id) => id.fmt(f),
            Self::Job(id) => id.fmt(f),
            Self::Memory(user) => write!(f, "memory_{}", user_directory(*user)),
        }
    }
}

/// A directory below the root of the workspaces of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Project or job.
    pub id: WorkspaceId,
    /// Owner.
    pub user: UserId,
    /// Name of the directory.
    pub directory: String,
}

impl Workspace {
    /// The workspace of a job.
    pub fn of_job(user: UserId, job: JobId) -> Self {
        Self { id: WorkspaceId::Job(job), user, directory: job.to_string() }
    }

    /// The workspace of a user's memory.
    pub fn of_memory(user: UserId) -> Self {
        Self { id: WorkspaceId::Memory(user), user, directory: MEMORY.to_owned() }
    }

    /// The directory above, below its root: `user_<id>`, `jobs/user_<id>` or `memories/user_<id>`.
    pub fn parent(&self) -> String {
        let user = user_directory(self.user);
        match self.id {
            WorkspaceId::Project(_) => user,
            WorkspaceId::Job(_) => format!("{JOBS}/{user}"),
            WorkspaceId::Memory(_) => format!("{MEMORIES}/{user}"),
        }
    }

    /// Path below its root.
    pub fn path(&self) -> String {
        format!("{}/{}", self.parent(), self.directory)
    }
}

impl From<&Project> for Workspace {
    fn from(project: &Project) -> Self {
        Self {
            id: WorkspaceId::Project(project.id),
            user: project.user,
            directory: project.directory.clone(),
        }
    }
}

/// The directory of a user's workspaces.
pub fn user_directory(user: UserId) -> String {
    format!("user_{}", user.0)
}

/// The user of a directory that [`user_directory`] names.
pub fn user_of_directory(name: &str) -> Option<UserId> {
    let user = UserId(name.strip_prefix("user_")?.parse().ok()?);
    (user_directory(user) == name).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_projects_of_all_users_have_different_directories() {
        let job = Workspace::of_job(UserId(7), JobId::from_bits(1));
        assert_eq!(job.path(), format!("jobs/user_7/{}", JobId::from_bits(1)));
        assert_eq!(job.id.to_string(), job.directory);
        assert_eq!(Workspace::of_memory(UserId(7)).path(), "memories/user_7/own");
    }

    #[test]
    fn a_user_directory_names_its_user() {
        assert_eq!(user_of_directory("user_12"), Some(UserId(12)));
        for other in ["user_012", "user_", "user_+1", "user_1x", "jobs", ".nanoclaw", "user_4294967296"] {
            assert_eq!(user_of_directory(other), None, "{other}");
        }
    }
}
