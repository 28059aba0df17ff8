//! One run of a tool's handler: its job, and access to the files of the job's project or of the job.

use crate::ports::{CancelToken, Web, WorkspaceFiles, WorkspaceFolder, WorkspaceOwner};
use serde_json::{Value, json};
use std::io::Read;
use std::sync::Arc;

/// The longest text that a tool reads. A response of the host holds 4 MiB of JSON.
const TEXT_BYTES: u64 = 1024 * 1024;

pub(super) struct HandlerRun {
    /// The arguments as JSON.
    pub(super) arguments: String,
    pub(super) web: Arc<dyn Web>,
    pub(super) files: Arc<dyn WorkspaceFiles>,
    /// Whose files the handler may use.
    pub(super) owner: WorkspaceOwner,
    pub(super) cancel: CancelToken,
}

impl HandlerRun {
    fn folder(&self) -> Result<Box<dyn WorkspaceFolder>, String> {
        let folder = self.files.folder(self.owner).map_err(|error| error.to_string())?;
        folder.ok_or_else(|| "this call has neither job nor project: name a project_id".to_owned())
    }

    /// Reads a text file.
    pub(super) fn read_file(&self, path: &str) -> Result<String, String> {
        let (file, size) = self.folder()?.open(path).map_err(|error| error.to_string())?;
        if size > TEXT_BYTES {
            return Err(format!("'{path}' has {size} bytes; a tool reads {TEXT_BYTES} at most"));
        }
        let mut bytes = Vec::new();
        let read = file.take(TEXT_BYTES).read_to_end(&mut bytes);
        read.map_err(|_| format!("'{path}' cannot be read"))?;
        String::from_utf8(bytes).map_err(|_| format!("'{path}' is not a UTF-8 text file"))
    }

    /// The entries of a directory: `{files: [{name, path, size}], directories: [{name, path}], is_cut}`.
    pub(super) fn list_files(&self, path: &str) -> Result<Value, String> {
        let listing = self.folder()?.find(path, "*").map_err(|error| error.to_string())?;
        let file =
            |file: &crate::ports::FileEntry| json!({"name": file.name, "path": file.path, "size": file.size});
        let directory = |(name, path): &(String, String)| json!({"name": name, "path": path});
        Ok(json!({
            "files": listing.files.iter().map(file).collect::<Vec<_>>(),
            "directories": listing.directories.iter().map(directory).collect::<Vec<_>>(),
            "is_cut": listing.is_cut,
        }))
    }

    /// Replaces a text file. Returns its size in bytes.
    pub(super) fn write_file(&self, path: &str, text: &str) -> Result<u64, String> {
        self.folder()?
            .replace(path, text.as_bytes())
            .map(|written| written.size)
            .map_err(|error| error.to_string())
    }
}
