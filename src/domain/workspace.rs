//! Workspaces: the directories for files of jobs. A project has one, and a job without a project has one of
//! its own.

use super::hex::hex;
use super::id::{JobId, ProjectId, UserId};
use super::project::Project;
use ring::hmac;
use std::fmt;

/// The directory above the directories of jobs.
pub const JOBS: &str = "jobs";
/// The directory above the memories of users.
const MEMORIES: &str = "memories";
/// The directory of a user's memory in that of the user.
const MEMORY: &str = "own";
/// The start of the name of a user's directory. The user's number follows.
const USER_PREFIX: &str = "user_";
/// Bytes of the part of the name that nobody can guess.
const TAG_BYTES: usize = 8;

/// The names of the directories of users: `user_<id>-<tag>`.
///
/// Landlock mediates neither `stat` nor the errors of a path, so a program can test whether a path exists.
/// The tag needs a key, which keeps the paths of one user from the programs of all others.
#[derive(Debug, Clone)]
pub struct UserDirectories(hmac::Key);

impl UserDirectories {
    /// The names that this secret key gives.
    pub fn new(key: &[u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// The name of a user's directory: always the same.
    pub fn name(&self, user: UserId) -> String {
        let name = format!("{USER_PREFIX}{}", user.0);
        let tag = hmac::sign(&self.0, name.as_bytes());
        format!("{name}-{}", hex(tag.as_ref().get(..TAG_BYTES).unwrap_or_default()))
    }
}

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
            Self::Memory(user) => write!(f, "memory_user_{}", user.0),
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

    /// The directory of all users above it, below its root; empty: the root itself.
    pub fn area(&self) -> &'static str {
        match self.id {
            WorkspaceId::Project(_) => "",
            WorkspaceId::Job(_) => JOBS,
            WorkspaceId::Memory(_) => MEMORIES,
        }
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

/// The user of a directory, whatever the key of its name: also of an earlier version, which had no tag.
pub fn user_of_directory(name: &str) -> Option<UserId> {
    let rest = name.strip_prefix(USER_PREFIX)?;
    let (number, tag) = rest.split_once('-').map_or((rest, None), |(number, tag)| (number, Some(tag)));
    let is_hex = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    let is_tag = |tag: &str| tag.len() == 2 * TAG_BYTES && tag.bytes().all(is_hex);
    let user = UserId(number.parse().ok()?);
    (user.0.to_string() == number && tag.is_none_or(is_tag)).then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_projects_and_memories_are_in_different_areas() {
        let job = Workspace::of_job(UserId(7), JobId::from_bits(1));
        let memory = Workspace::of_memory(UserId(7));
        assert_eq!((job.area(), memory.area()), ("jobs", "memories"));
        assert_eq!(job.id.to_string(), job.directory);
        assert_eq!(memory.id.to_string(), "memory_user_7");
    }

    #[test]
    fn p7_the_name_of_a_user_directory_needs_the_key_and_stays_the_same() {
        let names = |key| UserDirectories::new(&[key; 32]);
        let name = names(1).name(UserId(12));
        assert_eq!(name, "user_12-6a19ecc798b512e7");
        assert_ne!(names(2).name(UserId(12)), name);
        assert_ne!(names(1).name(UserId(13)).split_once('-'), name.split_once('-'));
    }

    #[test]
    fn a_user_directory_names_its_user() {
        let name = UserDirectories::new(&[1; 32]).name(UserId(12));
        for name in ["user_12", name.as_str()] {
            assert_eq!(user_of_directory(name), Some(UserId(12)));
        }
        for other in [
            "user_012",
            "user_",
            "user_+1",
            "user_1x",
            "jobs",
            ".nanoclaw",
            "user_4294967296",
            "user_12-",
            "user_12-0123456789abcde",
            "user_12-0123456789abcdeF",
            "user_12-0123456789abcdef0",
        ] {
            assert_eq!(user_of_directory(other), None, "{other}");
        }
    }
}
