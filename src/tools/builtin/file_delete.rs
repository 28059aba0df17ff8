//! `file_delete`: removes one file of the job's project. It does not remove directories.

use super::project_file::{folder, path_parameter, refused, shown, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileError, FileKind, ProjectFiles, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct FileDelete(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileDelete(Arc::clone(&deps.files)))
}

impl Tool for FileDelete {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_delete".into(),
            description: "Delete one file of the project. Directories are not deleted.".into(),
            parameters: json!({
                "type": "object",
                "properties": {"path": path_parameter("The file")},
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Writes }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let (files, path) = (folder(&*self.0, context)?, text(arguments, "path"));
        match files.delete(path) {
            Ok(()) => Ok(json!({"path": shown(path), "deleted": true})),
            Err(FileError::WrongKind(_)) if matches!(files.kind(path), Ok(Some(FileKind::Directory))) => {
                Err(ToolError::failed(format!(
                    "'{}' is a directory: file_delete removes files only. Delete the files in it one by one, or the whole \
                     directory with bash (rm -r)",
                    shown(path)
                )))
            }
            Err(error) => Err(refused(error)),
        }
    }
}
