//! `file_delete`: removes one file of the job's project. It does not remove directories.

use super::builtin_tool::spec;
use super::project_file::{PathArguments, WRITES, path_parameter, project_tool, refused, shown};
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
        Ok(()) => Ok(json!({"path": shown(&path), "deleted": true})),
        Err(FileError::WrongKind(_)) if matches!(files.kind(&path), Ok(Some(FileKind::Directory))) => {
            Err(ToolError::failed(format!(
                "'{}' is a directory: file_delete removes files only. Delete the files in it one by one, or the whole \
                 directory with bash (rm -r)",
                shown(&path)
            )))
        }
        Err(error) => Err(refused(error)),
    })
}
