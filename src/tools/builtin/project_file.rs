//! What the file tools share: the project of the job, and error texts. Project and owner come from the
//! context, never from the arguments (P7).

use crate::ports::{FileError, ProjectFiles, ProjectFolder, ToolContext, ToolError};
use serde_json::{Map, Value, json};

/// What is told where the job has no project that its user has.
const NO_PROJECT: &str = "project_id is required for file operations: this job has no project, so there are no files to \
                          work with. Tell the user to submit the job with the project_id of a project of theirs";

/// The files of the job's project. A project that is another's is told like none at all.
pub(super) fn folder(
    files: &dyn ProjectFiles,
    context: &ToolContext,
) -> Result<Box<dyn ProjectFolder>, ToolError> {
    let id = context.project_id.ok_or_else(|| ToolError::failed(NO_PROJECT))?;
    match files.folder(context.user, id) {
        Ok(found) => found.ok_or_else(|| ToolError::failed(NO_PROJECT)),
        Err(error) => Err(ToolError::failed(format!("The project cannot be looked up: {error}"))),
    }
}

/// A refusal, with what to do about it.
pub(super) fn refused(error: FileError) -> ToolError {
    let told = error.to_string();
    ToolError::failed(match error {
        FileError::Outside(_) => format!(
            "{told}. Paths are relative to the project's directory, as in 'src/main.rs', without '..' or a leading '/'"
        ),
        FileError::NotFound(_) => format!("{told}. file_list shows what is there"),
        FileError::NotText(_) => format!(
            "{told}. file_read with an encoding shows it; convert it with bash (iconv) or execute_python to change it"
        ),
        FileError::TooLarge(_) => format!("{told} (limits.file_bytes). file_read shows it page by page"),
        FileError::Quota(_) => format!("{told}. Delete what is not needed any more, or ask the user"),
        FileError::Full => format!("{told}: nothing can be written now. Tell the user"),
        FileError::Io(reason) => {
            tracing::warn!(reason, "a file of a project cannot be reached");
            format!("{told}: a fault of this server, not of the arguments")
        }
        FileError::BadPath(_) | FileError::Exists(_) | FileError::WrongKind(_) => told,
    })
}

/// A text among the arguments; empty when it is not there.
pub(super) fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A path as results tell it: without what means nothing.
pub(super) fn shown(path: &str) -> String {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}

/// The parameter that names a file.
pub(super) fn path_parameter(what: &str) -> Value {
    json!({
        "type": "string", "minLength": 1,
        "description": format!("{what}, relative to the project's directory, as in src/main.rs"),
    })
}
