//! Memories as files: that of a user below the data directory, or the one that nodes share; that of a project
//! among its files. Both count against the account's quota for files.

use crate::domain::project::{OWN_NAME, Project};
use crate::domain::workspace::Workspace;
use crate::ports::{
    FileError, Memories, MemoryChange, MemoryOwner, NodeStore, Projects, QuotaShare, QuotaSources,
    StorageAllowance, StorageScope, Users, Workspaces,
};
use std::sync::Arc;

/// The name of the file.
const FILE: &str = "memory.md";
/// Files and directories of a user's memory.
const ENTRIES: u64 = 16;

/// Memories in the workspaces.
pub(super) struct StoreMemories {
    projects: Arc<dyn Projects>,
    users: Arc<dyn Users>,
    workspaces: Arc<dyn Workspaces>,
    project_limits: StorageAllowance,
    max_bytes: u64,
}

/// Where a memory is.
struct MemoryFile {
    workspace: Workspace,
    path: String,
    allowance: StorageAllowance,
}

impl StoreMemories {
    /// Memories of at most `max_bytes`. Uses the same `Workspaces` as HTTP, so that writers wait for each
    /// other.
    pub(super) fn new(
        store: &Arc<dyn NodeStore>,
        workspaces: &Arc<dyn Workspaces>,
        project_limits: StorageAllowance,
        max_bytes: u64,
    ) -> Self {
        Self {
            projects: Arc::<dyn NodeStore>::clone(store),
            users: Arc::<dyn NodeStore>::clone(store),
            workspaces: Arc::clone(workspaces),
            project_limits,
            max_bytes,
        }
    }

    fn file(&self, owner: MemoryOwner) -> Result<MemoryFile, FileError> {
        let Some(id) = owner.project else {
            let allowance =
                StorageAllowance { bytes: u64::MAX, entries: ENTRIES, scope: StorageScope::Project };
            return Ok(MemoryFile {
                workspace: Workspace::of_memory(owner.user),
                path: FILE.to_owned(),
                allowance,
            });
        };
        let project: Project = self
            .projects
            .project(owner.user, id)?
            .ok_or_else(|| FileError::NotFound(format!("the project {id}")))?;
        let (workspace, path) = (Workspace::from(&project), format!("{OWN_NAME}/{FILE}"));
        Ok(MemoryFile { workspace, path, allowance: self.project_limits })
    }

    /// Fails if the text would exceed a limit.
    fn check(&self, workspace: &Workspace, before: usize, after: usize) -> Result<(), FileError> {
        let (before, after) = (before as u64, after as u64);
        if after <= before {
            return Ok(());
        }
        if after > self.max_bytes {
            let limit = self.max_bytes;
            return Err(FileError::TooLarge(format!(
                "the memory would have {after} bytes and may have {limit} (memory.max_bytes): remove or shorten what is \
                 in it first"
            )));
        }
        let sources = QuotaSources {
            users: self.users.as_ref(),
            projects: self.projects.as_ref(),
            workspaces: self.workspaces.as_ref(),
        };
        let Some(share): Option<QuotaShare> = sources.share_of::<FileError>(workspace)? else {
            return Ok(());
        };
        let held = self.workspaces.usage(workspace)?.bytes.saturating_add(after.saturating_sub(before));
        if held <= share.left() {
            return Ok(());
        }
        let quota = share.quota;
        Err(FileError::Quota(format!(
            "all projects and memories of this account together may hold {quota} bytes (quota.project_bytes)"
        )))
    }
}

impl Memories for StoreMemories {
    fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn read(&self, owner: MemoryOwner) -> Result<String, FileError> {
        let MemoryFile { workspace, path, .. } = self.file(owner)?;
        match self.workspaces.read(&workspace, &path) {
            Err(FileError::NotFound(_)) => Ok(String::new()),
            other => other,
        }
    }

    fn revise(&self, owner: MemoryOwner, change: MemoryChange<'_>) -> Result<(), FileError> {
        let MemoryFile { workspace, path, allowance } = self.file(owner)?;
        if owner.project.is_none() {
            self.workspaces.make(&workspace)?;
        }
        let mut checked = Ok(());
        self.workspaces.revise(
            &workspace,
            &path,
            &mut |before| {
                let Ok(before) = String::from_utf8(before.unwrap_or_default()) else {
                    checked = Err(FileError::NotText(path.clone()));
                    return None;
                };
                let after = change(&before)?;
                checked = self.check(&workspace, before.len(), after.len());
                (checked.is_ok() && after != before).then(|| after.into_bytes())
            },
            allowance,
        )?;
        checked
    }
}
