//! Workspaces for tools: finds the one of a call, adds the quotas, resolves paths, and applies the rule about
//! hidden names. Hidden paths are refused before the disk is read.

use super::job_usages::JobUsages;
use super::memories::StoreMemories;
use super::project_limit::ProjectDirectoryLimit;
use super::run_limit::CountingLimit;
use super::shared_dir::SharedDir;
use crate::config::{Config, MemoryOptions};
use crate::domain::id::JobId;
use crate::domain::project::{OWN_NAME, Project};
use crate::domain::secret_names::is_secret_name;
use crate::domain::workspace::{UserDirectories, Workspace};
use crate::domain::workspace_path::path_below;
use crate::ports::{
    Clock, DirectoryLimit, DirectoryListing, FileChange, FileError, FileKind, GlobQuery, Memories, NodeStore,
    Projects, QuotaShare, QuotaSources, RunDirectory, SearchQuery, SearchResults, StorageAllowance,
    StorageScope, StorageUsage, Store, Users, WorkspaceFiles, WorkspaceFolder, WorkspaceOwner, Workspaces,
    WrittenFile,
};
use crate::workspace::HostFiles;
use std::fs::File;
use std::sync::Arc;

/// Characters of a path in an error.
const SHOWN_CHARS: usize = 200;

/// The files of projects below `workspace_root`, and those of jobs below the data directory or the one that
/// nodes share.
pub(super) fn host_files(
    config: &Config,
    users: UserDirectories,
    clock: &Arc<dyn Clock>,
    shared: Option<&Arc<SharedDir>>,
) -> HostFiles {
    let files = HostFiles::new(config.workspace_root.clone(), users, &config.limits, Arc::clone(clock))
        .with_job_root(config.files_dir().to_owned());
    match shared {
        Some(shared) => files.shared_by_nodes(Arc::<SharedDir>::clone(shared)),
        None => files,
    }
}

#[derive(Clone)]
pub(super) struct StoreWorkspaceFiles {
    jobs: Arc<dyn Store>,
    projects: Arc<dyn Projects>,
    users: Arc<dyn Users>,
    workspaces: Arc<dyn Workspaces>,
    usages: Arc<JobUsages>,
    /// The limits of every project.
    project_limits: StorageAllowance,
    /// Whether tools may use names of secrets.
    show_hidden: bool,
}

impl StoreWorkspaceFiles {
    /// Uses the same `Workspaces` as HTTP, so that writers wait for each other.
    pub(super) fn new(
        config: &Config,
        store: &Arc<dyn NodeStore>,
        workspaces: &Arc<dyn Workspaces>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let limits = &config.limits;
        let usages = JobUsages::new(limits, workspaces);
        // Other nodes change the directories of a user's jobs, too.
        let has_nodes = config.store.url.is_some();
        let usages = if has_nodes { usages.counted_again(Arc::clone(clock)) } else { usages };
        Self {
            jobs: Arc::<dyn NodeStore>::clone(store),
            projects: Arc::<dyn NodeStore>::clone(store),
            users: Arc::<dyn NodeStore>::clone(store),
            workspaces: Arc::clone(workspaces),
            usages: Arc::new(usages),
            project_limits: StorageAllowance {
                bytes: limits.project_bytes,
                entries: limits.project_entries,
                scope: StorageScope::Project,
            },
            show_hidden: config.files.show_hidden,
        }
    }

    /// What the workspaces of jobs hold.
    pub(super) fn usages(&self) -> &Arc<JobUsages> {
        &self.usages
    }

    /// The memories; `None` if the configuration has none.
    pub(super) fn memories(&self, config: &Config, store: &Arc<dyn NodeStore>) -> Option<Arc<dyn Memories>> {
        let MemoryOptions { enabled, max_bytes } = config.memory;
        let make = || StoreMemories::new(store, &self.workspaces, self.project_limits, max_bytes);
        enabled.then(|| -> Arc<dyn Memories> { Arc::new(make()) })
    }

    fn project(&self, owner: WorkspaceOwner) -> Result<Option<Project>, FileError> {
        let Some(id) = owner.project else { return Ok(None) };
        Ok(self.projects.project(owner.user, id)?)
    }

    /// What the quota of a project's owner leaves to it; `None` without a quota.
    fn share(&self, project: &Project) -> Result<Option<QuotaShare>, FileError> {
        let sources = QuotaSources {
            users: self.users.as_ref(),
            projects: self.projects.as_ref(),
            workspaces: self.workspaces.as_ref(),
        };
        sources.share(project)
    }

    /// The workspace of a job. It is created on first use, because most jobs need none.
    fn job_workspace(&self, owner: WorkspaceOwner, job: JobId) -> Result<Workspace, FileError> {
        let workspace = Workspace::of_job(owner.user, job);
        match self.workspaces.kind(&workspace, "") {
            Err(FileError::NotFound(_)) => {}
            other => return other.map(|_| workspace),
        }
        // The files of a deleted job were removed and must not come back.
        if self.jobs.job(owner.user, job)?.is_none() {
            return Err(FileError::NotFound(job.to_string()));
        }
        self.workspaces.make(&workspace)?;
        Ok(workspace)
    }
}

impl WorkspaceFiles for StoreWorkspaceFiles {
    fn folder(&self, owner: WorkspaceOwner) -> Result<Option<Box<dyn WorkspaceFolder>>, FileError> {
        let (workspace, job, project) = match (self.project(owner)?, owner.job) {
            (Some(project), _) => (Workspace::from(&project), None, Some(project)),
            (None, Some(job)) => (self.job_workspace(owner, job)?, Some(job), None),
            (None, None) => return Ok(None),
        };
        Ok(Some(Box::new(StoreWorkspaceFolder { workspace, project, job, files: self.clone() })))
    }

    fn directory(&self, owner: WorkspaceOwner) -> Result<Option<RunDirectory>, FileError> {
        let (workspace, limit): (_, Box<dyn DirectoryLimit>) = match (self.project(owner)?, owner.job) {
            (Some(project), _) => {
                let workspace = Workspace::from(&project);
                let StorageAllowance { bytes, entries, .. } = self.project_limits;
                let limit = ProjectDirectoryLimit {
                    project: StorageUsage { bytes, entries },
                    share: self.share(&project)?,
                    start: self.workspaces.usage(&workspace)?,
                };
                (workspace, Box::new(limit))
            }
            (None, Some(job)) => {
                let workspace = self.job_workspace(owner, job)?;
                (workspace, Box::new(self.usages.limit(owner.user, job)?))
            }
            (None, None) => return Ok(None),
        };
        let path = self.workspaces.absolute(&workspace);
        let limit = CountingLimit { limit, workspaces: Arc::clone(&self.workspaces), workspace };
        Ok(Some(RunDirectory { path, limit: Some(Arc::new(limit)) }))
    }
}

struct StoreWorkspaceFolder {
    workspace: Workspace,
    /// The project, if the workspace is a project's.
    project: Option<Project>,
    /// The job, if the workspace is a job's.
    job: Option<JobId>,
    files: StoreWorkspaceFiles,
}

impl StoreWorkspaceFolder {
    /// The remaining allowance: the limits and the rest of the quota.
    fn allowance(&self) -> Result<StorageAllowance, FileError> {
        if let Some(job) = self.job {
            return self.files.usages.allowance(self.workspace.user, job);
        }
        let share = self.project.as_ref().map(|project| self.files.share(project)).transpose()?;
        let remaining_bytes = share.flatten().map_or(u64::MAX, QuotaShare::left);
        let limits = self.files.project_limits;
        Ok(StorageAllowance { bytes: limits.bytes.min(remaining_bytes), ..limits })
    }

    /// Counts what a job's workspace holds after a write.
    fn count<T>(&self, written: T) -> Result<T, FileError> {
        if let Some(job) = self.job {
            let usage = self.files.workspaces.usage(&self.workspace)?;
            self.files.usages.record(self.workspace.user, job, usage)?;
        }
        Ok(written)
    }

    /// The path below the workspace, unless it has a name that tools may not use.
    fn visible(&self, path: &str) -> Result<String, FileError> {
        let path = self.relative(path)?;
        self.check_visible(&path)?;
        Ok(path)
    }

    fn check_visible(&self, path: &str) -> Result<(), FileError> {
        match path.split('/').find(|name| is_secret_name(name)) {
            Some(OWN_NAME) => Err(FileError::BadPath(format!("'{OWN_NAME}' belongs to the server"))),
            Some(name) if !self.files.show_hidden => Err(FileError::BadPath(format!(
                "'{name}' is hidden: this server keeps .env files, keys and the like from file tools \
                 (files.show_hidden); use another name"
            ))),
            _ => Ok(()),
        }
    }

    /// The directory and a glob below it. An absolute glob, and one with `..`, has to stay in the workspace.
    fn visible_glob(&self, path: &str, glob: &str) -> Result<(String, String), FileError> {
        let path = self.visible(path)?;
        let is_simple = !glob.starts_with('/') && glob.split('/').all(|name| name != "..");
        let (path, glob) = if is_simple {
            (path, glob.to_owned())
        } else {
            let from = if glob.starts_with('/') { glob.to_owned() } else { format!("{path}/./{glob}") };
            let glob = self.relative(from.strip_prefix("/./").unwrap_or(&from))?;
            match glob.strip_prefix(&format!("{path}/")) {
                Some(below) => (path, below.to_owned()),
                None => (String::new(), glob),
            }
        };
        self.check_visible(&glob)?;
        Ok((path, glob))
    }
}

impl WorkspaceFolder for StoreWorkspaceFolder {
    fn relative(&self, path: &str) -> Result<String, FileError> {
        let root = self.files.workspaces.absolute(&self.workspace);
        let below = path_below(&root, path).or_else(|| {
            // Programs print the path without links.
            root.canonicalize().ok().and_then(|real| path_below(&real, path))
        });
        below.ok_or_else(|| FileError::OutsideDirectory {
            path: path.chars().take(SHOWN_CHARS).collect(),
            owner: if self.job.is_some() { "the job's" } else { "project" },
            directory: root.display().to_string(),
        })
    }

    fn open(&self, path: &str) -> Result<(File, u64), FileError> {
        self.files.workspaces.open_file(&self.workspace, &self.visible(path)?)
    }

    fn kind(&self, path: &str) -> Result<Option<FileKind>, FileError> {
        self.files.workspaces.kind(&self.workspace, &self.visible(path)?)
    }

    fn find(&self, path: &str, glob: &str) -> Result<DirectoryListing, FileError> {
        let (path, glob) = self.visible_glob(path, glob)?;
        let query = GlobQuery { path, glob, with_hidden: true, hides_secrets: !self.files.show_hidden };
        self.files.workspaces.find(&self.workspace, &query)
    }

    fn search(&self, query: SearchQuery) -> Result<SearchResults, FileError> {
        let (path, glob) = match &query.glob {
            Some(glob) => self.visible_glob(&query.path, glob).map(|(path, glob)| (path, Some(glob)))?,
            None => (self.visible(&query.path)?, None),
        };
        let query =
            SearchQuery { path, glob, with_hidden: true, hides_secrets: !self.files.show_hidden, ..query };
        self.files.workspaces.search(&self.workspace, &query)
    }

    fn replace(&self, path: &str, bytes: &[u8]) -> Result<WrittenFile, FileError> {
        let (path, allowance) = (self.visible(path)?, self.allowance()?);
        self.count(self.files.workspaces.replace(&self.workspace, &path, bytes, allowance)?)
    }

    fn revise(&self, path: &str, change: FileChange<'_>) -> Result<Option<WrittenFile>, FileError> {
        let (path, allowance) = (self.visible(path)?, self.allowance()?);
        self.count(self.files.workspaces.revise(&self.workspace, &path, change, allowance)?)
    }

    fn delete(&self, path: &str) -> Result<(), FileError> {
        self.count(self.files.workspaces.delete_file(&self.workspace, &self.visible(path)?)?)
    }

    fn make_directory(&self, path: &str) -> Result<bool, FileError> {
        let (path, allowance) = (self.visible(path)?, self.allowance()?);
        self.count(self.files.workspaces.make_directory(&self.workspace, &path, allowance)?)
    }
}
