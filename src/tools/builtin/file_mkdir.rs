//! `file_mkdir`: makes a directory of the job's project, and its parents.

use super::project_file::{folder, path_parameter, refused, shown, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{ProjectFiles, Tool, ToolContext, ToolError};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct FileMkdir(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileMkdir(Arc::clone(&deps.files)))
}

impl Tool for FileMkdir {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_mkdir".into(),
            description: "Make a directory of the project, with those above it. One that is there already is fine. Not \
                          needed before file_write, which makes directories itself."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {"path": path_parameter("The directory")},
                "required": ["path"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        ToolTraits { idempotent: true, cacheable: false, files: FileAccess::Writes }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let path = text(arguments, "path");
        let created = folder(&*self.0, context)?.make_directory(path).map_err(refused)?;
        Ok(json!({"path": shown(path), "created": created}))
    }
}
