//! Writes an upload to the disk. Dropped before the end, it removes everything it has written.

use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::domain::workspace::Workspace;
use crate::http::api::projects::create::{ReservedProject, draft};
use crate::http::api::projects::quota::{self, allowance};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::shared_threads::ThreadShare;
use crate::ports::{FileError, Upload};
use bytes::Bytes;
use std::sync::Arc;

/// Writes are collected up to this many bytes or steps.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_ACTS: usize = 256;

/// Where the files go.
pub(crate) enum UploadTarget {
    /// A new project of this user with this directory name.
    New(UserId, ProjectName),
    /// An existing project.
    Into(AddedFiles),
}

enum UploadStep {
    Begin(String),
    Data(Bytes),
    End,
}

enum OpenTarget {
    New(ReservedProject),
    Into(AddedFiles),
}

/// Files that are being uploaded.
pub(crate) struct UploadWriter {
    // Dropped before the target, so that open files are closed before they are removed.
    upload: Box<dyn Upload>,
    target: OpenTarget,
    waiting: Vec<UploadStep>,
    bytes: usize,
    files: u64,
    most_files: u64,
}

impl UploadWriter {
    /// Opens the target. Blocking.
    pub(crate) fn open(app: &Arc<AppDependencies>, aim: UploadTarget) -> Result<Self, ApiError> {
        let target = match aim {
            UploadTarget::New(user, name) => {
                OpenTarget::New(ReservedProject::new(app, draft(app, user, name))?)
            }
            UploadTarget::Into(added) => OpenTarget::Into(added),
        };
        let project = target.project()?;
        let upload = app.workspaces.upload(&Workspace::from(project), allowance(app, project)?)?;
        let most_files = app.limits.upload_files;
        Ok(Self { upload, target, waiting: Vec::new(), bytes: 0, files: 0, most_files })
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
        self.waiting.push(UploadStep::Begin(path));
        Ok(self)
    }

    /// More of it.
    pub(crate) fn take(&mut self, data: Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        self.waiting.push(UploadStep::Data(data));
    }

    /// It ends.
    pub(crate) fn end(mut self) -> Self {
        self.waiting.push(UploadStep::End);
        self
    }

    /// Whether it should be flushed.
    pub(crate) fn is_heavy(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.waiting.len() >= PIECE_ACTS
    }

    /// Writes what is collected on a thread that may block. The writer moves there, so that files are not
    /// removed and written at the same time when a client leaves.
    pub(crate) async fn flush(mut self) -> Result<Self, ApiError> {
        let threads = self.target.threads()?;
        let writing = threads.run(move || {
            self.write()?;
            Ok(self)
        });
        writing.await?
    }

    fn write(&mut self) -> Result<(), ApiError> {
        self.bytes = 0;
        let steps = std::mem::take(&mut self.waiting);
        let upload = &mut self.upload;
        let written = steps.into_iter().try_for_each(|step| match step {
            UploadStep::Begin(path) => upload.begin(&path),
            UploadStep::Data(data) => upload.write(&data),
            UploadStep::End => upload.end(),
        });
        self.note_published();
        Ok(written?)
    }

    /// Lets all files appear.
    fn finish(&mut self) -> Result<(), ApiError> {
        let finished = self.upload.finish();
        self.note_published();
        Ok(finished?)
    }

    fn note_published(&mut self) {
        if let OpenTarget::Into(added) = &mut self.target {
            added.paths.append(&mut self.upload.take_published());
        }
    }

    /// All files are written: publishes the project. Blocking.
    pub(crate) fn publish(mut self, finish: impl FnOnce(Project) -> Project) -> Result<Project, ApiError> {
        self.finish()?;
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            OpenTarget::New(reserved) => reserved.publish(finish),
            OpenTarget::Into(_) => Err(ApiError::Internal),
        }
    }

    /// All files are written: keeps them. Blocking.
    pub(crate) fn keep(mut self) -> Result<(), ApiError> {
        self.finish()?;
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            OpenTarget::Into(added) => added.keep(),
            OpenTarget::New(_) => Err(ApiError::Internal),
        }
    }
}

impl OpenTarget {
    /// The share of the project's owner.
    fn threads(&self) -> Result<ThreadShare, ApiError> {
        let app = match self {
            Self::New(reserved) => reserved.app(),
            Self::Into(added) => &added.app,
        };
        Ok(app.threads_of(self.project()?.user))
    }

    fn project(&self) -> Result<&Project, ApiError> {
        match self {
            Self::New(reserved) => reserved.project(),
            Self::Into(added) => Ok(&added.project),
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
        // The project may have been deleted during the upload.
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
                match app.workspaces.delete(&Workspace::from(&project), &path) {
                    Ok(()) | Err(FileError::NotFound(_)) => {}
                    Err(error) => {
                        tracing::warn!(project = %project.id, %error, "a file of a refused upload stays");
                    }
                }
            }
        };
        self.app.threads_of(self.project.user).run_later(undo);
    }
}
