//! `file_write`: writes a text file of the job's project, or appends to it. Readers see the old file or the
//! new one. It does not append to a file of another encoding.

use super::project_file::{folder, path_parameter, refused, shown, text};
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{FileError, ProjectFiles, ProjectFolder, Tool, ToolContext, ToolError, WrittenFile};
use crate::tools::registry::ToolDeps;
use serde_json::{Map, Value, json};
use std::sync::Arc;

struct FileWrite(Arc<dyn ProjectFiles>);

/// For the registry.
pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    Box::new(FileWrite(Arc::clone(&deps.files)))
}

impl Tool for FileWrite {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "file_write".into(),
            description: "Write a text file of the project (UTF-8), or add to its end. Directories above it are made. To change \
                          a part of a file, use file_edit."
                .into(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": path_parameter("The file"),
                    "content": {"type": "string", "description": "The text, exactly as it is to be written"},
                    "mode": {
                        "type": "string", "enum": ["write", "append"], "default": "write",
                        "description": "write: the text becomes the whole file; append: it is added to its end as it is, \
                                        without a line end in between",
                    },
                },
                "required": ["path", "content"],
                "additionalProperties": false,
            }),
        }
    }

    fn traits(&self) -> ToolTraits {
        // Adding twice is not adding once.
        ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Writes }
    }

    fn call(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Result<Value, ToolError> {
        let files = folder(&*self.0, context)?;
        let (path, new) = (text(arguments, "path"), text(arguments, "content"));
        let (mode, written) = match text(arguments, "mode") {
            "append" => ("append", append(&*files, path, new)?),
            _ => ("write", files.replace(path, new.as_bytes()).map_err(refused_whole)?),
        };
        Ok(json!({"path": shown(path), "size": written.size, "mode": mode, "created": written.created}))
    }
}

fn append(files: &dyn ProjectFolder, path: &str, new: &str) -> Result<WrittenFile, ToolError> {
    let revised = files.revise(path, &mut |before| {
        let mut bytes = before.unwrap_or_default();
        // Half a file in one encoding and half in another could be read in none.
        std::str::from_utf8(&bytes).ok()?;
        bytes.extend_from_slice(new.as_bytes());
        Some(bytes)
    });
    revised.map_err(refused_whole)?.ok_or_else(|| {
        ToolError::failed(format!(
            "'{}' is not a UTF-8 text file: nothing is added to it. Convert it first with bash (iconv) or execute_python",
            shown(path)
        ))
    })
}

/// Of what is too large to be written, there is nothing to be read.
fn refused_whole(error: FileError) -> ToolError {
    match error {
        FileError::TooLarge(reason) => {
            ToolError::failed(format!("{reason} (limits.file_bytes). Write several smaller files instead"))
        }
        other => refused(other),
    }
}
