//! Shared by the file tools: the files of the job's project or of the job, and error texts. Project and owner
//! come from the context, never from the arguments (P7).

use super::builtin_tool::BuiltinTool;
use crate::domain::tool::{FileAccess, ToolSpec, ToolTraits};
use crate::ports::{
    FileError, Tool, ToolContext, ToolError, WorkspaceFiles, WorkspaceFolder, WorkspaceOwner,
};
use crate::tools::registry::ToolDeps;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

pub(super) const READS: ToolTraits = ToolTraits { files: FileAccess::Reads, ..ToolTraits::READ };
/// Not idempotent: a second append or edit changes the file again.
pub(super) const WRITES: ToolTraits =
    ToolTraits { idempotent: false, cacheable: false, files: FileAccess::Writes };

const NO_FILES: &str = "project_id is required for file operations: this call has neither a job nor a project, so there \
                        are no files to work with";

/// The arguments of a tool that takes only a path.
#[derive(Deserialize)]
pub(super) struct PathArguments {
    pub(super) path: String,
}

/// A tool that works on the files of the job's project, or of a job without one.
pub(super) fn file_tool<A: DeserializeOwned>(
    deps: &ToolDeps,
    spec: ToolSpec,
    traits: ToolTraits,
    run: impl Fn(&dyn WorkspaceFolder, A, &ToolContext) -> Result<Value, ToolError> + Send + Sync + 'static,
) -> Box<dyn Tool> {
    let files = Arc::clone(&deps.files);
    Box::new(BuiltinTool::new(spec, traits, move |arguments, context| {
        run(folder(files.as_ref(), context)?.as_ref(), arguments, context)
    }))
}

/// The files of the call.
fn folder(files: &dyn WorkspaceFiles, context: &ToolContext) -> Result<Box<dyn WorkspaceFolder>, ToolError> {
    match files.folder(WorkspaceOwner::from(context)) {
        Ok(folder) => folder.ok_or_else(|| ToolError::failed(NO_FILES)),
        Err(error) => Err(ToolError::failed(format!("The job's directory cannot be used: {error}"))),
    }
}

/// The error for the model, with what to do about it.
pub(super) fn file_error(error: FileError) -> ToolError {
    let message = error.to_string();
    ToolError::failed(match error {
        FileError::Outside(_) | FileError::OutsideDirectory { .. } => {
            format!(
                "{message}: files are in that directory only. Use a path in it; a relative path starts there"
            )
        }
        FileError::NotFound(_) => format!("{message}. file_list shows what is there"),
        FileError::NotText(_) => format!("{message}. file_read with an encoding shows it"),
        FileError::TooLarge(_) => format!("{message} (limits.file_bytes). file_read shows it page by page"),
        FileError::Quota(_) => format!("{message}. Delete what is not needed any more, or ask the user"),
        FileError::Unavailable(_) => format!("{message}. Tell the user"),
        FileError::Full => format!("{message}: nothing can be written now. Tell the user"),
        FileError::Io(reason) => {
            tracing::warn!(reason, "project file failed");
            format!("{message}: a fault of this server, not of the arguments")
        }
        FileError::BadPath(_) | FileError::Changed(_) | FileError::Exists(_) | FileError::WrongKind(_) => {
            message
        }
    })
}

/// The path below the job's directory, which is `.` itself.
pub(super) fn relative(files: &dyn WorkspaceFolder, path: &str) -> Result<String, ToolError> {
    let path = files.relative(path).map_err(file_error)?;
    Ok(if path.is_empty() { ".".to_owned() } else { path })
}

/// Computes the version of a file: its length and a hash of its content. It detects accidents. A
/// forged match gains nothing: its author can write the file anyway.
#[derive(Default)]
pub(super) struct FileDigest {
    hasher: DefaultHasher,
    bytes: usize,
}

impl FileDigest {
    /// Adds the next bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.hasher.write(bytes);
        self.bytes = self.bytes.saturating_add(bytes.len());
    }

    /// The version.
    pub(super) fn version(self) -> String {
        format!("{:x}-{:016x}", self.bytes, self.hasher.finish())
    }
}

/// The version of a file with this content.
pub(super) fn version_of(content: &[u8]) -> String {
    let mut digest = FileDigest::default();
    digest.add(content);
    digest.version()
}

/// The schema of a parameter that names a file.
pub(super) fn path_parameter() -> Value {
    json!({"type": "string", "minLength": 1})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_file_depends_on_its_content_only() {
        let mut pieces = FileDigest::default();
        for piece in [&b"a"[..], b"", b"bcdefgh", b"ij"] {
            pieces.add(piece);
        }
        assert_eq!(pieces.version(), version_of(b"abcdefghij"));
        assert_ne!(version_of(b"abcdefghij"), version_of(b"abcdefghik"));
        assert_ne!(version_of(b""), version_of(b"\0"));
    }
}
