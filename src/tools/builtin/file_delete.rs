//! `file_delete`: removes one file of the job's project. It does not remove directories.

use super::builtin_tool::spec;
use super::project_file::{PathArguments, WRITES, display_path, file_error, path_parameter, project_tool};
use crate::ports::{FileError, FileKind, Tool, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::json;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_delete",
        "Delete one file of the project. Directories are not deleted.",
        json!({"path": path_parameter("The file")}),
        &["path"],
    );
    project_tool(deps, spec, WRITES, |files, PathArguments { path }, _| match files.delete(&path) {
        Ok(()) => Ok(json!({"path": display_path(&path), "deleted": true})),
        Err(FileError::WrongKind(_)) if matches!(files.kind(&path), Ok(Some(FileKind::Directory))) => {
            Err(ToolError::failed(format!(
                "'{}' is a directory: file_delete removes files only. Delete the files in it one by one, or the whole \
                 directory with bash (rm -r)",
                display_path(&path)
            )))
        }
        Err(error) => Err(file_error(error)),
    })
}
