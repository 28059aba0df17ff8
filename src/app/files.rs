//! Files of projects for tools: joins the rows of projects with their directories, the account's quota and what the
//! operator says about hidden names. Refuses paths with a hidden name in them before the disk is asked.

use crate::config::Config;
use crate::domain::id::{ProjectId, UserId};
use crate::domain::project::{OWN_NAME, Project};
use crate::ports::{
    DirectoryListing, FileChange, FileError, FileKind, GlobQuery, ProjectFiles, ProjectFolder, Projects,
    QuotaShare, QuotaSources, SearchQuery, SearchResults, StorageAllowance, StoreError, Users, Workspaces,
    WrittenFile,
};
use crate::store::RedbStore;
use std::fs::File;
use std::sync::Arc;

/// The store's projects, and the host's files.
#[derive(Clone)]
pub(super) struct StoredFiles {
    projects: Arc<dyn Projects>,
    users: Arc<dyn Users>,
    workspaces: Arc<dyn Workspaces>,
    /// What every project may hold.
    most: StorageAllowance,
    /// Names that begin with a dot are files like others.
    show_hidden: bool,
}

impl StoredFiles {
    /// Over the same host's files as everybody else: whoever writes waits for the others.
    pub(super) fn new(config: &Config, store: &Arc<RedbStore>, workspaces: &Arc<dyn Workspaces>) -> Self {
        let limits = &config.limits;
        Self {
            projects: Arc::<RedbStore>::clone(store),
            users: Arc::<RedbStore>::clone(store),
            workspaces: Arc::clone(workspaces),
            most: StorageAllowance {
                project_bytes: limits.project_bytes,
                project_entries: limits.project_entries,
            },
            show_hidden: config.files.show_hidden,
        }
    }
}

impl ProjectFiles for StoredFiles {
    fn folder(&self, user: UserId, project: ProjectId) -> Result<Option<Box<dyn ProjectFolder>>, StoreError> {
        let found = self.projects.project(user, project)?;
        Ok(found
            .map(|project| Box::new(StoredFolder { project, all: self.clone() }) as Box<dyn ProjectFolder>))
    }
}

/// One project's files.
struct StoredFolder {
    project: Project,
    all: StoredFiles,
}

impl StoredFolder {
    /// What may be written: the limits, and what the account's quota leaves of them.
    fn allowance(&self) -> Result<StorageAllowance, FileError> {
        let of = QuotaSources {
            users: self.all.users.as_ref(),
            projects: self.all.projects.as_ref(),
            workspaces: self.all.workspaces.as_ref(),
        };
        let left = of.share::<FileError>(&self.project)?.map_or(u64::MAX, QuotaShare::left);
        Ok(StorageAllowance { project_bytes: self.all.most.project_bytes.min(left), ..self.all.most })
    }

    /// The path, unless it has a name in it that is none of the tools' business.
    fn shown<'p>(&self, path: &'p str) -> Result<&'p str, FileError> {
        let hidden = |name: &&str| name.starts_with('.') && !matches!(*name, "." | "..");
        // What is outside is refused as such, whatever its names.
        if path.starts_with('/') || path.split('/').any(|name| name == "..") {
            return Ok(path);
        }
        match path.split('/').find(hidden) {
            Some(OWN_NAME) => Err(FileError::BadPath(format!("'{OWN_NAME}' belongs to the server"))),
            Some(name) if !self.all.show_hidden => Err(FileError::BadPath(format!(
                "'{name}' is hidden: this server does not let tools touch names that begin with a dot \
                 (files.show_hidden); use another name"
            ))),
            _ => Ok(path),
        }
    }
}

impl ProjectFolder for StoredFolder {
    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        self.all.workspaces.open_file(&self.project, self.shown(path)?)
    }

    fn kind(&self, path: &str) -> Result<Option<FileKind>, FileError> {
        self.all.workspaces.kind(&self.project, self.shown(path)?)
    }

    fn find(&self, path: &str, glob: &str) -> Result<DirectoryListing, FileError> {
        let (path, glob) = (self.shown(path)?.to_owned(), self.shown(glob)?.to_owned());
        let query = GlobQuery { path, glob, with_hidden: self.all.show_hidden };
        self.all.workspaces.find(&self.project, &query)
    }

    fn search(&self, query: SearchQuery) -> Result<SearchResults, FileError> {
        self.shown(&query.path)?;
        self.shown(query.glob.as_deref().unwrap_or_default())?;
        let query = SearchQuery { with_hidden: self.all.show_hidden, ..query };
        self.all.workspaces.search(&self.project, &query)
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<WrittenFile, FileError> {
        self.all.workspaces.replace(&self.project, self.shown(path)?, bytes, self.allowance()?)
    }

    fn revise(&self, path: &str, change: FileChange<'_>) -> Result<Option<WrittenFile>, FileError> {
        self.all.workspaces.revise(&self.project, self.shown(path)?, change, self.allowance()?)
    }

    fn delete(&self, path: &str) -> Result<(), FileError> {
        self.all.workspaces.delete_file(&self.project, self.shown(path)?)
    }

    fn make_directory(&self, path: &str) -> Result<bool, FileError> {
        self.all.workspaces.make_directory(&self.project, self.shown(path)?, self.allowance()?)
    }
}
