//! Projects' files on the host. Owns every path beneath the workspace's root; refuses to know who may have which project.

use crate::domain::limits::Limits;
use crate::domain::project::Project;
use crate::ports::{Allowance, FileError, Listing, SearchFound, SearchQuery, TreeStats, Upload, Workspaces};
use std::path::PathBuf;

/// The workspace's root and its bounds.
#[derive(Debug)]
pub struct HostFiles {
    root: PathBuf,
}

impl HostFiles {
    /// Files below this directory, which is made when it is needed.
    pub fn new(root: PathBuf, _limits: &Limits) -> Self {
        Self { root }
    }
}

fn not_yet() -> FileError {
    FileError::Io("not yet".to_owned())
}

impl Workspaces for HostFiles {
    fn make(&self, _project: &Project) -> Result<(), FileError> {
        Err(not_yet())
    }
    fn remove(&self, _project: &Project) -> Result<(), FileError> {
        Err(not_yet())
    }
    fn absolute(&self, project: &Project) -> PathBuf {
        self.root.join(project.path())
    }
    fn stats(&self, _project: &Project) -> Result<TreeStats, FileError> {
        Err(not_yet())
    }
    fn list(&self, _project: &Project, _path: &str) -> Result<Listing, FileError> {
        Err(not_yet())
    }
    fn read(&self, _project: &Project, _path: &str) -> Result<String, FileError> {
        Err(not_yet())
    }
    fn write(
        &self,
        _project: &Project,
        _path: &str,
        _text: &str,
        _most: Allowance,
    ) -> Result<u64, FileError> {
        Err(not_yet())
    }
    fn rename(&self, _project: &Project, _from: &str, _to: &str) -> Result<(), FileError> {
        Err(not_yet())
    }
    fn delete(&self, _project: &Project, _path: &str) -> Result<(), FileError> {
        Err(not_yet())
    }
    fn make_directory(&self, _project: &Project, _path: &str, _most: Allowance) -> Result<(), FileError> {
        Err(not_yet())
    }
    fn search(&self, _project: &Project, _query: &SearchQuery) -> Result<SearchFound, FileError> {
        Err(not_yet())
    }
    fn upload(&self, _project: &Project, _most: Allowance) -> Result<Box<dyn Upload>, FileError> {
        Err(not_yet())
    }
}
