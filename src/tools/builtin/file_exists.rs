//! `file_exists`: the type and size of what is at a path of the job's project. It follows no link.

use super::builtin_tool::spec;
use super::project_file::{PathArguments, READS, display_path, file_error, path_parameter, project_tool};
use crate::ports::{FileKind, Tool};
use crate::tools::registry::ToolDeps;
use serde_json::json;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_exists",
        "Check whether a file or directory of the project exists: its type (file, directory, other) and a file's size in \
         bytes.",
        json!({"path": path_parameter("The file or directory")}),
        &["path"],
    );
    project_tool(deps, spec, READS, |files, PathArguments { path }, _| {
        let kind = files.kind(&path).map_err(file_error)?;
        let path = display_path(&path);
        Ok(match kind {
            None => json!({"path": path, "exists": false}),
            Some(FileKind::File(size)) => json!({"path": path, "exists": true, "type": "file", "size": size}),
            Some(FileKind::Directory) => json!({"path": path, "exists": true, "type": "directory"}),
            Some(FileKind::Other) => json!({"path": path, "exists": true, "type": "other"}),
        })
    })
}
