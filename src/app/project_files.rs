//! Files of projects for tools: adds the account's quota and the rule about hidden names. Hidden paths are
//! refused before the disk is read.

use crate::config::Config;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{OWN_NAME, Project};
use crate::domain::workspace::Workspace;
use crate::ports::{
    DirectoryListing, FileChange, FileError, FileKind, GlobQuery, ProjectFiles, ProjectFolder, Projects,
    QuotaShare, QuotaSources, SearchQuery, SearchResults, StorageAllowance, StorageScope, StoreError, Users,
    Workspaces, WrittenFile,
};
use crate::store::RedbStore;
use std::fs::File;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct StoreProjectFiles {
    projects: Arc<dyn Projects>,
    users: Arc<dyn Users>,
    workspaces: Arc<dyn Workspaces>,
    /// The limits of every project.
    limits: StorageAllowance,
    /// Whether tools may use names that begin with a dot.
    show_hidden: bool,
}

impl StoreProjectFiles {
    /// Uses the same `Workspaces` as HTTP, so that writers wait for each other.
    pub(super) fn new(config: &Config, store: &Arc<RedbStore>, workspaces: &Arc<dyn Workspaces>) -> Self {
        let limits = &config.limits;
        Self {
            projects: Arc::<RedbStore>::clone(store),
            users: Arc::<RedbStore>::clone(store),
            workspaces: Arc::clone(workspaces),
            limits: StorageAllowance {
                bytes: limits.project_bytes,
                entries: limits.project_entries,
                scope: StorageScope::Project,
            },
            show_hidden: config.files.show_hidden,
        }
    }
}

impl ProjectFiles for StoreProjectFiles {
    fn folder(&self, user: UserId, project: ProjectId) -> Result<Option<Box<dyn ProjectFolder>>, StoreError> {
        let stored_project = self.projects.project(user, project)?;
        Ok(stored_project.map(|project| {
            let workspace = Workspace::from(&project);
            Box::new(StoreProjectFolder { project, workspace, files: self.clone() }) as Box<dyn ProjectFolder>
        }))
    }
}

struct StoreProjectFolder {
    project: Project,
    workspace: Workspace,
    files: StoreProjectFiles,
}

impl StoreProjectFolder {
    /// The remaining allowance: the limits and the rest of the quota.
    fn allowance(&self) -> Result<StorageAllowance, FileError> {
        let sources = QuotaSources {
            users: self.files.users.as_ref(),
            projects: self.files.projects.as_ref(),
            workspaces: self.files.workspaces.as_ref(),
        };
        let remaining_bytes = sources.share::<FileError>(&self.project)?.map_or(u64::MAX, QuotaShare::left);
        Ok(StorageAllowance {
            bytes: self.files.limits.bytes.min(remaining_bytes),
            ..self.files.limits
        })
    }

    /// The path, unless it has a name that tools may not use.
    fn check_visible<'p>(&self, path: &'p str) -> Result<&'p str, FileError> {
        let is_hidden = |name: &&str| name.starts_with('.') && !matches!(*name, "." | "..");
        // Paths that leave the project get their own error later.
        if path.starts_with('/') || path.split('/').any(|name| name == "..") {
            return Ok(path);
        }
        match path.split('/').find(is_hidden) {
            Some(OWN_NAME) => Err(FileError::BadPath(format!("'{OWN_NAME}' belongs to the server"))),
            Some(name) if !self.files.show_hidden => Err(FileError::BadPath(format!(
                "'{name}' is hidden: this server does not let tools touch names that begin with a dot \
                 (files.show_hidden); use another name"
            ))),
            _ => Ok(path),
        }
    }
}

impl ProjectFolder for StoreProjectFolder {
    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        self.files.workspaces.open_file(&self.workspace, self.check_visible(path)?)
    }

    fn kind(&self, path: &str) -> Result<Option<FileKind>, FileError> {
        self.files.workspaces.kind(&self.workspace, self.check_visible(path)?)
    }

    fn find(&self, path: &str, glob: &str) -> Result<DirectoryListing, FileError> {
        let (path, glob) = (self.check_visible(path)?.to_owned(), self.check_visible(glob)?.to_owned());
        let query = GlobQuery { path, glob, with_hidden: self.files.show_hidden };
        self.files.workspaces.find(&self.workspace, &query)
    }

    fn search(&self, query: SearchQuery) -> Result<SearchResults, FileError> {
        self.check_visible(&query.path)?;
        self.check_visible(query.glob.as_deref().unwrap_or_default())?;
        let query = SearchQuery { with_hidden: self.files.show_hidden, ..query };
        self.files.workspaces.search(&self.workspace, &query)
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<WrittenFile, FileError> {
        self.files.workspaces.replace(&self.workspace, self.check_visible(path)?, bytes, self.allowance()?)
    }

    fn revise(&self, path: &str, change: FileChange<'_>) -> Result<Option<WrittenFile>, FileError> {
        self.files.workspaces.revise(&self.workspace, self.check_visible(path)?, change, self.allowance()?)
    }

    fn delete(&self, path: &str) -> Result<(), FileError> {
        self.files.workspaces.delete_file(&self.workspace, self.check_visible(path)?)
    }

    fn make_directory(&self, path: &str) -> Result<bool, FileError> {
        self.files.workspaces.make_directory(&self.workspace, self.check_visible(path)?, self.allowance()?)
    }
}
