//! Memories: a text for each user and for each project, which jobs read and change. All calls block.

use super::workspaces::FileError;
use crate::domain::file_version::{FileCondition, FileVersion};
use crate::domain::id::{ProjectId, UserId};

/// Whose memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOwner {
    /// The user.
    pub user: UserId,
    /// The memory of this project of the user, instead of the user's own.
    pub project: Option<ProjectId>,
}

/// Computes a new text from the current one, which is empty at first; `None` changes nothing.
pub type MemoryChange<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

/// Reads and changes memories. A project of another user does not exist: [`FileError::NotFound`] (P7).
pub trait Memories: Send + Sync {
    /// The largest text, bytes.
    fn max_bytes(&self) -> u64;
    /// The text; empty at first.
    fn read(&self, owner: MemoryOwner) -> Result<String, FileError>;
    /// Changes the text. Changes of all nodes wait for each other, so none is lost. The disk has the new text
    /// when this returns.
    fn revise(&self, owner: MemoryOwner, change: MemoryChange<'_>) -> Result<(), FileError>;
    /// Replaces the text if the condition holds, else [`FileError::Changed`]. A memory always exists.
    fn replace_if(&self, owner: MemoryOwner, condition: &FileCondition, text: &str) -> Result<(), FileError> {
        let mut holds = true;
        self.revise(owner, &mut |before| {
            holds = match condition {
                FileCondition::Always | FileCondition::Exists => true,
                FileCondition::Missing => false,
                FileCondition::Versions(versions) => {
                    versions.contains(&FileVersion::of_content(before.as_bytes()).to_string())
                }
            };
            holds.then(|| text.to_owned())
        })?;
        if holds {
            return Ok(());
        }
        Err(FileError::Changed(
            "the memory has changed since it was read; read it again, then repeat the change".to_owned(),
        ))
    }
}
