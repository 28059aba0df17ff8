//! `file_write`: writes a text file of the job's project, or appends to it. Readers see the old file or the
//! new one. It does not append to a file of another encoding.

use super::builtin_tool::spec;
use super::project_file::{WRITES, display_path, file_error, path_parameter, project_tool};
use crate::ports::{FileError, ProjectFolder, Tool, ToolError, WrittenFile};
use crate::tools::registry::ToolDeps;
use serde::{Deserialize, Serialize};
use serde_json::json;

#[derive(Deserialize)]
struct WriteArguments {
    path: String,
    content: String,
    #[serde(default)]
    mode: WriteMode,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    #[default]
    Write,
    Append,
}

pub(super) fn register(deps: &ToolDeps) -> Box<dyn Tool> {
    let spec = spec(
        "file_write",
        "Write a text file of the project (UTF-8), or add to its end. Directories above it are made. To change a part of a \
         file, use file_edit.",
        json!({
            "path": path_parameter("The file"),
            "content": {"type": "string", "description": "The text, exactly as it is to be written"},
            "mode": {
                "type": "string", "enum": ["write", "append"], "default": "write",
                "description": "write: the text becomes the whole file; append: it is added to its end as it is, \
                                without a line end in between",
            },
        }),
        &["path", "content"],
    );
    project_tool(deps, spec, WRITES, |files, WriteArguments { path, content, mode }, _| {
        let written = match mode {
            WriteMode::Write => files.replace(&path, content.as_bytes()).map_err(not_written)?,
            WriteMode::Append => append(files, &path, &content)?,
        };
        Ok(
            json!({"path": display_path(&path), "size": written.size, "mode": mode, "created": written.created}),
        )
    })
}

fn append(files: &dyn ProjectFolder, path: &str, new: &str) -> Result<WrittenFile, ToolError> {
    let revised = files.revise(path, &mut |before| {
        let mut bytes = before.unwrap_or_default();
        // A file with two encodings is unreadable.
        std::str::from_utf8(&bytes).ok()?;
        bytes.extend_from_slice(new.as_bytes());
        Some(bytes)
    });
    revised.map_err(not_written)?.ok_or_else(|| {
        ToolError::failed(format!(
            "'{}' is not a UTF-8 text file: nothing is added to it. Convert it first with bash (iconv) or execute_python",
            display_path(path)
        ))
    })
}

/// Like [`refused`], but a too large file has no pages that `file_read` could show.
fn not_written(error: FileError) -> ToolError {
    match error {
        FileError::TooLarge(reason) => {
            ToolError::failed(format!("{reason} (limits.file_bytes). Write several smaller files instead"))
        }
        other => file_error(other),
    }
}
