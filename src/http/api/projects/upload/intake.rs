//! An upload on its way to the disk. Owns what has not been written yet, and takes everything away that was, when it is dropped
//! before it is whole.

use super::super::allowance::{self, allowance};
use super::super::create::{Reserved, draft};
use crate::domain::id::UserId;
use crate::domain::project::{Project, ProjectName};
use crate::http::blocking::blocking;
use crate::http::error::Error;
use crate::http::room::Room;
use crate::ports::{FileError, Upload};
use bytes::Bytes;
use std::sync::Arc;

/// What is written at once: so many bytes, or so many acts.
const PIECE_BYTES: usize = 256 * 1024;
const PIECE_ACTS: usize = 256;

/// Where the files go.
pub(super) enum Aim {
    /// Into a project of this user that is in the making; its directory is named so.
    New(UserId, ProjectName),
    /// Into one that is there.
    Into(Added),
}

enum Act {
    Begin(String),
    Data(Bytes),
    End,
}

enum Target {
    New(Reserved),
    Into(Added),
}

/// Files on their way.
pub(super) struct Intake {
    // Dropped before the target: what is open is closed before it is removed.
    upload: Box<dyn Upload>,
    target: Target,
    waiting: Vec<Act>,
    bytes: usize,
    /// The file that is being written.
    path: String,
    files: u64,
    most_files: u64,
}

impl Intake {
    /// Makes the place. Blocking.
    pub(super) fn open(room: &Arc<Room>, aim: Aim) -> Result<Self, Error> {
        let target = match aim {
            Aim::New(user, name) => Target::New(Reserved::new(room, draft(room, user, name))?),
            Aim::Into(added) => Target::Into(added),
        };
        let project = target.project()?;
        let upload = room.workspaces.upload(project, allowance(room, project)?)?;
        let most_files = room.limits.upload_files;
        Ok(Self { upload, target, waiting: Vec::new(), bytes: 0, path: String::new(), files: 0, most_files })
    }

    /// A file begins.
    pub(super) fn begin(mut self, path: String) -> Result<Self, Error> {
        self.files = self.files.saturating_add(1);
        if self.files > self.most_files {
            let most = self.most_files;
            let rule = format!("the upload has more than limits.upload_files = {most} files");
            return Err(Error::UploadTooLarge(rule));
        }
        self.bytes = self.bytes.saturating_add(path.len());
        self.waiting.push(Act::Begin(path));
        Ok(self)
    }

    /// More of it.
    pub(super) fn take(&mut self, data: Bytes) {
        self.bytes = self.bytes.saturating_add(data.len());
        self.waiting.push(Act::Data(data));
    }

    /// It ends.
    pub(super) fn end(mut self) -> Self {
        self.waiting.push(Act::End);
        self
    }

    /// Whether it should be flushed.
    pub(super) fn is_heavy(&self) -> bool {
        self.bytes >= PIECE_BYTES || self.waiting.len() >= PIECE_ACTS
    }

    /// Writes what waits, on a thread that may block. It goes along, so that a client which leaves now cannot have its files
    /// removed and written at once.
    pub(super) async fn flush(mut self) -> Result<Self, Error> {
        let writing = blocking(move || {
            self.write()?;
            Ok(self)
        });
        writing.await?
    }

    fn write(&mut self) -> Result<(), Error> {
        self.bytes = 0;
        for act in std::mem::take(&mut self.waiting) {
            match act {
                Act::Begin(path) => {
                    self.upload.begin(&path)?;
                    self.path = path;
                }
                Act::Data(data) => self.upload.write(&data)?,
                Act::End => {
                    self.upload.end()?;
                    self.target.note(std::mem::take(&mut self.path));
                }
            }
        }
        Ok(())
    }

    /// All is there: the project may be seen. Blocking.
    pub(super) fn found(self, finish: impl FnOnce(Project) -> Project) -> Result<Project, Error> {
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            Target::New(reserved) => reserved.found(finish),
            Target::Into(_) => Err(Error::Internal),
        }
    }

    /// All is there: it stays. Blocking.
    pub(super) fn keep(self) -> Result<(), Error> {
        let Self { upload, target, .. } = self;
        drop(upload);
        match target {
            Target::Into(added) => added.keep(),
            Target::New(_) => Err(Error::Internal),
        }
    }
}

impl Target {
    fn project(&self) -> Result<&Project, Error> {
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
pub(super) struct Added {
    room: Arc<Room>,
    project: Project,
    paths: Vec<String>,
}

impl Added {
    /// None yet.
    pub(super) fn new(room: &Arc<Room>, project: Project) -> Self {
        Self { room: Arc::clone(room), project, paths: Vec::new() }
    }

    fn keep(mut self) -> Result<(), Error> {
        // The client may have taken its time: a project that is gone has nothing added to it.
        if self.room.projects.project(self.project.user, self.project.id)?.is_none() {
            return Err(Error::NotFound("project"));
        }
        allowance::check(&self.room, &self.project)?;
        self.paths.clear();
        Ok(())
    }
}

impl Drop for Added {
    fn drop(&mut self) {
        if self.paths.is_empty() {
            return;
        }
        let (room, project, paths) =
            (Arc::clone(&self.room), self.project.clone(), std::mem::take(&mut self.paths));
        let undo = move || {
            for path in paths {
                match room.workspaces.delete(&project, &path) {
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
