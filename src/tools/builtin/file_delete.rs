//! `file_delete`: removes one file of the job. It does not remove directories.

use super::builtin_tool::spec;
use super::workspace_file::{PathArguments, WRITES, file_error, file_tool, path_parameter, relative};
use super::workspace_programs::FilePrograms;
use crate::ports::{FileError, FileKind, Tool, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::json;
use std::sync::Arc;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_delete",
        "Delete one file, not a directory.",
        json!({"path": path_parameter()}),
        &["path"],
    );
    let runner = Arc::clone(&deps.code);
    file_tool(deps, spec, WRITES, move |files, PathArguments { path }, context| {
        let path = relative(files, &path)?;
        match files.delete(&path) {
            Ok(()) => Ok(json!({"path": path, "deleted": true})),
            Err(FileError::WrongKind(_)) if matches!(files.kind(&path), Ok(Some(FileKind::Directory))) => {
                let programs = FilePrograms::of(runner.as_ref(), context);
                let whole = programs.bash_hint(", or the whole directory with {}", "rm -r");
                Err(ToolError::failed(format!(
                    "'{path}' is a directory: file_delete removes files only. Delete the files in it one by one{whole}"
                )))
            }
            Err(error) => Err(file_error(error)),
        }
    })
}
