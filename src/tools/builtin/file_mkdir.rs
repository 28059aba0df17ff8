//! `file_mkdir`: makes a directory of the job, and its parents.

use super::builtin_tool::spec;
use super::workspace_file::{PathArguments, WRITES, file_error, file_tool, path_parameter, relative};
use crate::domain::tool::ToolTraits;
use crate::ports::Tool;
use crate::tools::registry::ToolDeps;
use serde_json::json;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_mkdir",
        "Make a directory and its parents. file_write does that itself.",
        json!({"path": path_parameter()}),
        &["path"],
    );
    let traits = ToolTraits { idempotent: true, ..WRITES };
    file_tool(deps, spec, traits, |files, PathArguments { path }, _| {
        let path = relative(files, &path)?;
        let created = files.make_directory(&path).map_err(file_error)?;
        Ok(json!({"path": path, "created": created}))
    })
}
