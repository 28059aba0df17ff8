//! `file_exists`: what lies at a path of the job's project, if anything. It follows no link.

use super::project_file::{folder, path_parameter, refused, shown, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileKind, ProjectFiles, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct FileExists(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileExists(Arc::clone(&deps.files)))
}

impl Tool for FileExists {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_exists".into(),
            description: "Check whether a file or directory of the project exists: its type (file, directory, other) and \
                          a file's size in bytes."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {"path": path_parameter("The file or directory")},
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let path = text(arguments, "path");
        let kind = folder(&*self.0, context)?.kind(path).map_err(refused)?;
        let path = shown(path);
        Ok(match kind {
            None => json!({"path": path, "exists": false}),
            Some(FileKind::File(size)) => {
                json!({"path": path, "exists": true, "type": "file", "size": size})
            }
            Some(FileKind::Directory) => json!({"path": path, "exists": true, "type": "directory"}),
            Some(FileKind::Other) => json!({"path": path, "exists": true, "type": "other"}),
        })
    }
}
