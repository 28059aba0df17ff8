//! An upload on its way to the disk. Owns what has not been written yet, and takes everything away that was, when it is dropped
//! before it is whole.

use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::http::api::projects::create::{ReservedProject, draft};
use crate::http::api::projects::quota::{self, allowance};
use crate::http::blocking::blocking;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::ports::{FileError, Upload};
use bytes::Bytes;
use std::sync::Arc;

/// What is written at once: so many bytes, or so many acts.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_ACTS: usize = 256;

/// Where the files go.
pub(crate) enum UploadTarget {
    /// Into a project of this user that is in the making; its directory is named so.
    New(UserId, ProjectName),
    /// Into one that is there.
    Into(AddedFiles),
}

enum PendingWrite {
    Begin(String),
    Data(Bytes),
    End,
}

enum OpenTarget {
    New(ReservedProject),
    Into(AddedFiles),
}

/// Files on their way.
pub(crate) struct UploadWriter {
    // Dropped before the target: what is open is closed before it is removed.
    upload: Box<dyn Upload>,
    target: OpenTarget,
    waiting: Vec<PendingWrite>,
    bytes: usize,
    /// The file that is being written.
    path: String,
    files: u64,
    most_files: u64,
}

impl UploadWriter {
    /// Makes the place. Blocking.
    pub(crate) fn open(app: &Arc<AppDependencies>, aim: UploadTarget) -> Result<Self, ApiError> {
        let target = match aim {
            UploadTarget::New(user, name) => {
                OpenTarget::New(ReservedProject::new(app, draft(app, user, name))?)
            }
            UploadTarget::Into(added) => OpenTarget::Into(added),
        };
        let project = target.project()?;
        let upload = app.workspaces.upload(project, allowance(app, project)?)?;
        let most_files = app.limits.upload_files;
        Ok(Self { upload, target, waiting: Vec::new(), bytes: 0, path: String::new(), files: 0, most_files })
    }

    /// A file begins.
    pub(crate) fn begin(mut self, path: String) -> Result<Self, ApiError> {
        self.files = self.files.saturating_add(1);
        if self.files > self.most_files {
            let most = self.most_files;
            let rule = format!("the upload has more than limits.upload_files = {most} files");
            return Err(ApiError::UploadTooLarge(rule));
        }
        self.bytes = self.bytes.saturating_add(path.len());
        self.waiting.push(PendingWrite::Begin(path));
        Ok(self)
    }

    /// More of it.
    pub(crate) fn take(&mut self, data: Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        self.waiting.push(PendingWrite::Data(data));
    }

    /// It ends.
    pub(crate) fn end(mut self) -> Self {
        self.waiting.push(PendingWrite::End);
        self
    }

    /// Whether it should be flushed.
    pub(crate) fn is_heavy(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.waiting.len() >= PIECE_ACTS
    }

    /// Writes what waits, on a thread that may block. It goes along, so that a client which leaves now cannot have its files
    /// removed and written at once.
    pub(crate) async fn flush(mut self) -> Result<Self, ApiError> {
        let writing = blocking(move || {
            self.write()?;
            Ok(self)
        });
        writing.await?
    }

    fn write(&mut self) -> Result<(), ApiError> {
        self.bytes = 0;
        for act in std::mem::take(&mut self.waiting) {
            match act {
                PendingWrite::Begin(path) => {
                    self.upload.begin(&path)?;
                    self.path = path;
                }
                PendingWrite::Data(data) => self.upload.write(&data)?,
                PendingWrite::End => {
                    self.upload.end()?;
                    self.target.note(std::mem::take(&mut self.path));
                }
            }
        }
        Ok(())
    }

    /// All is there: the project may be seen. Blocking.
    pub(crate) fn found(self, finish: impl FnOnce(Project) -> Project) -> Result<Project, ApiError> {
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            OpenTarget::New(reserved) => reserved.found(finish),
            OpenTarget::Into(_) => Err(ApiError::Internal),
        }
    }

    /// All is there: it stays. Blocking.
    pub(crate) fn keep(self) -> Result<(), ApiError> {
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            OpenTarget::Into(added) => added.keep(),
            OpenTarget::New(_) => Err(ApiError::Internal),
        }
    }
}

impl OpenTarget {
    fn project(&self) -> Result<&Project, ApiError> {
        match self {
            Self::New(reserved) => reserved.project(),
            Self::Into(added) => Ok(&added.project),
        }
    }

    fn note(&mut self, path: String) {
        if let Self::Into(added) = self {
            added.paths.push(path);
        }
    }
}

/// Files that were added to a project. Dropped before they are kept, they are removed.
pub(crate) struct AddedFiles {
    app: Arc<AppDependencies>,
    project: Project,
    paths: Vec<String>,
}

impl AddedFiles {
    /// None yet.
    pub(crate) fn new(app: &Arc<AppDependencies>, project: Project) -> Self {
        Self { app: Arc::clone(app), project, paths: Vec::new() }
    }

    fn keep(mut self) -> Result<(), ApiError> {
        // The client may have taken its time: a project that is gone has nothing added to it.
        if self.app.projects.project(self.project.user, self.project.id)?.is_none() {
            return Err(ApiError::NotFound("project"));
        }
        quota::check(&self.app, &self.project)?;
        self.paths.clear();
        Ok(())
    }
}

impl Drop for AddedFiles {
    fn drop(&mut self) {
        if self.paths.is_empty() {
            return;
        }
        let (app, project, paths) =
            (Arc::clone(&self.app), self.project.clone(), std::mem::take(&mut self.paths));
        let undo = move || {
            for path in paths {
                match app.workspaces.delete(&project, &path) {
                    Ok(()) | Err(FileError::NotFound(_)) => {}
                    Err(error) => {
                        tracing::warn!(project = %project.id, %error, "a file of a refused upload stays");
                    }
                }
            }
        };
        // Without a runtime the process is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            drop(runtime.spawn_blocking(undo));
        }
    }
}
