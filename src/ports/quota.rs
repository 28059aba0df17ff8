//! What an account's quota leaves for one of its projects. Owns the sum over its other projects, which is only drawn where
//! there is a quota; refuses to know what is about to be written.

use super::projects::Projects;
use super::store::StoreError;
use super::users::Users;
use super::workspaces::{FileError, Workspaces};
use crate::domain::project::Project;

/// A quota, and what of it is taken elsewhere. Both are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaShare {
    /// What all projects of the account may hold together.
    pub quota: u64,
    /// What its other projects hold.
    pub others: u64,
}

impl QuotaShare {
    /// What the project itself may hold.
    pub fn left(self) -> u64 {
        self.quota.saturating_sub(self.others)
    }
}

/// Where the sum comes from.
#[derive(Clone, Copy)]
pub struct QuotaSources<'a> {
    /// Has the quota.
    pub users: &'a dyn Users,
    /// Knows the other projects.
    pub projects: &'a dyn Projects,
    /// Knows how large they are.
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
