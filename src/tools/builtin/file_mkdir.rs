//! `file_mkdir`: makes a directory of the job's project, and its parents.

use super::builtin_tool::spec;
use super::project_file::{PathArguments, WRITES, display_path, file_error, path_parameter, project_tool};
use crate::domain::tool::ToolTraits;
use crate::ports::Tool;
use crate::tools::registry::ToolDeps;
use serde_json::json;

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_mkdir",
        "Make a directory of the project, with those above it. One that is there already is fine. Not needed before \
         file_write, which makes directories itself.",
        json!({"path": path_parameter("The directory")}),
        &["path"],
    );
    let traits = ToolTraits { idempotent: true, ..WRITES };
    project_tool(deps, spec, traits, |files, PathArguments { path }, _| {
        let created = files.make_directory(&path).map_err(file_error)?;
        Ok(json!({"path": display_path(&path), "created": created}))
    })
}
