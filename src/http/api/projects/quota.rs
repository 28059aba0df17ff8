//! How many bytes may be added to a project: limits of the server and quota of the account.

use crate::domain::project::Project;
use crate::domain::workspace::Workspace;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::ports::{FileError, QuotaShare, QuotaSources, StorageAllowance, StorageScope};

/// How large the files of the project may become.
pub(crate) fn allowance(app: &AppDependencies, project: &Project) -> Result<StorageAllowance, ApiError> {
    let limits = &app.limits;
    let left = share(app, project)?.map_or(u64::MAX, QuotaShare::left);
    Ok(StorageAllowance {
        bytes: limits.project_bytes.min(left),
        entries: limits.project_entries,
        scope: StorageScope::Project,
    })
}

/// Fails if the project passed the quota of its owner while other projects grew, too.
pub(crate) fn check(app: &AppDependencies, project: &Project) -> Result<(), ApiError> {
    let Some(QuotaShare { quota, others }) = share(app, project)? else { return Ok(()) };
    let own = app.workspaces.stats(&Workspace::from(project))?.size;
    if others.saturating_add(own) <= quota {
        return Ok(());
    }
    Err(FileError::Quota(format!("all projects together may hold {quota} bytes (quota.project_bytes)"))
        .into())
}

fn share(app: &AppDependencies, project: &Project) -> Result<Option<QuotaShare>, ApiError> {
    let (users, projects) = (app.users.as_ref(), app.projects.as_ref());
    QuotaSources { users, projects, workspaces: app.workspaces.as_ref() }.share(project)
}
