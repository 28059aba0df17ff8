//! `file_exists`: the type and size of what is at a path of the job. It follows no link.

use super::builtin_tool::spec;
use super::workspace_file::{PathArguments, READS, file_error, file_tool, path_parameter, relative};
use crate::ports::{FileKind, Tool};
use crate::tools::registry::ToolDeps;
use serde_json::json;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_exists",
        "Whether a file or directory exists, its type and size.",
        json!({"path": path_parameter()}),
        &["path"],
    );
    file_tool(deps, spec, READS, |files, PathArguments { path }, _| {
        let path = relative(files, &path)?;
        let kind = files.kind(&path).map_err(file_error)?;
        Ok(match kind {
            None => json!({"path": path, "exists": false}),
            Some(FileKind::File(size)) => json!({"path": path, "exists": true, "type": "file", "size": size}),
            Some(FileKind::Directory) => json!({"path": path, "exists": true, "type": "directory"}),
            Some(FileKind::Other) => json!({"path": path, "exists": true, "type": "other"}),
        })
    })
}
