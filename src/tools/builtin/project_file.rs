//! Shared by the file tools: the project of the job, and error texts. Project and owner come from the
//! context, never from the arguments (P7).

use super::builtin_tool::BuiltinTool;
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileError, ProjectFiles, ProjectFolder, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const READS: ToolTraits = ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ };
/// Not idempotent: a second append or edit changes the file again.
pub(super) const WRITES: ToolTraits =
    ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Writes };

const NO_PROJECT: &str = "project_id is required for file operations: this job has no project, so there are no files to \
                          work with. Tell the user to submit the job with the project_id of a project of theirs";

/// The arguments of a tool that takes only a path.
#[derive(Deserialize)]
pub(super) struct PathArguments {
    pub(super) path: String,
}

/// A tool that works on the files of the job's project.
pub(super) fn project_tool<A: DeserializeOwned>(
    deps: &ToolDeps,
    spec: ToolSpec,
    traits: ToolTraits,
    run: impl Fn(&dyn ProjectFolder, A, &ToolContext) -> Result<Value, ToolError> + Send + Sync + 'static,
) -> Box<dyn Tool> {
    let files = Arc::clone(&deps.files);
    Box::new(BuiltinTool::new(spec, traits, move |arguments, context| {
        run(folder(files.as_ref(), context)?.as_ref(), arguments, context)
    }))
}

/// The files of the job's project. The project of another user counts as missing.
fn folder(files: &dyn ProjectFiles, context: &ToolContext) -> Result<Box<dyn ProjectFolder>, ToolError> {
    let id = context.project_id.ok_or_else(|| ToolError::failed(NO_PROJECT))?;
    match files.folder(context.user, id) {
        Ok(folder) => folder.ok_or_else(|| ToolError::failed(NO_PROJECT)),
        Err(error) => Err(ToolError::failed(format!("The project cannot be looked up: {error}"))),
    }
}

/// The error for the model, with what to do about it.
pub(super) fn file_error(error: FileError) -> ToolError {
    let message = error.to_string();
    ToolError::failed(match error {
        FileError::Outside(_) => format!(
            "{message}. Paths are relative to the project's directory, as in 'src/main.rs', without '..' or a leading '/'"
        ),
        FileError::NotFound(_) => format!("{message}. file_list shows what is there"),
        FileError::NotText(_) => format!(
            "{message}. file_read with an encoding shows it; convert it with bash (iconv) or execute_python to change it"
        ),
        FileError::TooLarge(_) => format!("{message} (limits.file_bytes). file_read shows it page by page"),
        FileError::Quota(_) => format!("{message}. Delete what is not needed any more, or ask the user"),
        FileError::Full => format!("{message}: nothing can be written now. Tell the user"),
        FileError::Io(reason) => {
            tracing::warn!(reason, "project file failed");
            format!("{message}: a fault of this server, not of the arguments")
        }
        FileError::BadPath(_) | FileError::Exists(_) | FileError::WrongKind(_) => message,
    })
}

/// The path without empty and `.` components, for results.
pub(super) fn display_path(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}

/// The schema of a parameter that names a file.
pub(super) fn path_parameter(what: &str) -> Value {
    json!({
        "type": "string", "minLength": 1,
        "description": format!("{what}, relative to the project's directory, as in src/main.rs"),
    })
}
