//! The part of an account's storage quota that one project may use.

use super::projects::Projects;
use super::store::StoreError;
use super::users::Users;
use super::workspaces::{FileError, Workspaces};
use crate::domain::project::Project;

/// An account's quota and its use by other projects, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaShare {
    /// Limit for all projects of the account together.
    pub quota: u64,
    /// Bytes in the account's other projects.
    pub others: u64,
}

impl QuotaShare {
    /// Bytes that this project may hold.
    pub fn left(self) -> u64 {
        self.quota.saturating_sub(self.others)
    }
}

/// The ports that the share is computed from.
#[derive(Clone, Copy)]
pub struct QuotaSources<'a> {
    /// Knows the quota.
    pub users: &'a dyn Users,
    /// Knows the other projects.
    pub projects: &'a dyn Projects,
    /// Knows their sizes.
    pub workspaces: &'a dyn Workspaces,
}

impl QuotaSources<'_> {
    /// The project's share; `None` when its owner has no quota.
    pub fn share<E>(&self, project: &Project) -> Result<Option<QuotaShare>, E>
    where
        E: From<StoreError> + From<FileError>,
    {
        let account = self.users.account(project.user)?;
        let Some(quota) = account.and_then(|account| account.quota.project_bytes) else { return Ok(None) };
        let mut others = self.projects.all_projects(project.user)?;
        others.retain(|other| other.id != project.id);
        Ok(Some(QuotaShare { quota, others: self.workspaces.bytes_of(&others)? }))
    }
}
