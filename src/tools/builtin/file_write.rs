//! `file_write`: writes a file of the job, or appends to it, in a named encoding. Readers see the old file or
//! the new one. It does not append to a file of another encoding.

use super::builtin_tool::spec;
use super::text_encoding::FileEncoding;
use super::workspace_file::{WRITES, file_error, file_tool, path_parameter, relative, version_of};
use super::workspace_programs::FilePrograms;
use crate::ports::{FileError, SeenFiles, Tool, ToolError, WorkspaceFolder, WrittenFile};
use crate::tools::registry::ToolDeps;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

#[derive(Deserialize)]
struct WriteArguments {
    path: String,
    content: String,
    #[serde(default)]
    mode: WriteMode,
    encoding: Option<String>,
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
        "Write a file and the directories above it; file_edit changes a part.",
        json!({
            "path": path_parameter(),
            "content": {"type": "string"},
            "mode": {"type": "string", "enum": ["write", "append"], "default": "write"},
            "encoding": {"type": "string", "description": "utf-8, base64 …"},
        }),
        &["path", "content"],
    );
    let runner = Arc::clone(&deps.code);
    file_tool(deps, spec, WRITES, move |files, arguments: WriteArguments, context| {
        let WriteArguments { path, content, mode, encoding } = arguments;
        let path = relative(files, &path)?;
        let encoding = FileEncoding::of(encoding.as_deref()).map_err(ToolError::Invalid)?;
        let (text, seen) = (FileText { encoding, text: &content }, &context.seen_files);
        let written = match mode {
            WriteMode::Write => text.write(files, &path, seen)?,
            WriteMode::Append => {
                let programs = FilePrograms::of(runner.as_ref(), context);
                text.append(files, &path, (seen, programs))?
            }
        };
        Ok(json!({"path": path, "size": written.size, "mode": mode, "created": written.created}))
    })
}

/// A write of a text in an encoding.
struct FileText<'a> {
    encoding: FileEncoding,
    text: &'a str,
}

impl FileText<'_> {
    fn write(
        &self,
        files: &dyn WorkspaceFolder,
        path: &str,
        seen: &SeenFiles,
    ) -> Result<WrittenFile, ToolError> {
        let bytes = self.encoding.encode(self.text).map_err(|why| invalid(path, &why))?;
        let written = files.replace(path, &bytes).map_err(not_written)?;
        seen.record(path, version_of(&bytes));
        Ok(written)
    }

    fn append(
        &self,
        files: &dyn WorkspaceFolder,
        path: &str,
        (seen, programs): (&SeenFiles, FilePrograms),
    ) -> Result<WrittenFile, ToolError> {
        let last_seen = seen.version(path);
        let (mut refusal, mut version) = (String::new(), None);
        let revised = files.revise(path, &mut |before| {
            let before = before.unwrap_or_default();
            let knows_all = last_seen.as_ref().is_some_and(|seen| *seen == version_of(&before));
            let bytes = self.encoding.append(before, self.text).map_err(|why| refusal = why).ok()?;
            version = knows_all.then(|| version_of(&bytes));
            Some(bytes)
        });
        let Some(written) = revised.map_err(not_written)? else {
            let hint = programs.hint(". Convert it first with {}", "iconv");
            return Err(invalid(path, &format!("{refusal}: nothing is added to it{hint}")));
        };
        // A model that had not seen all of the file does not know it now.
        if let Some(version) = version {
            seen.record(path, version);
        }
        Ok(written)
    }
}

fn invalid(path: &str, why: &str) -> ToolError {
    ToolError::failed(format!("'{path}' {why}"))
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
