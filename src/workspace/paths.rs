//! Paths in a workspace, as clients write them.

use crate::domain::workspace::Workspace;
use crate::ports::FileError;

/// Maximum path length, bytes (the kernel's limit).
const PATH_BYTES: usize = 4_095;
/// Maximum segment length, bytes (the limit of file systems).
const SEGMENT_BYTES: usize = 255;

/// A path below a workspace: segments joined by `/`. No segment is empty, only dots, or contains a separator
/// or control character. Empty for the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WorkspacePath(String);

impl WorkspacePath {
    /// Parses a client's path. `""` and `.` mean the workspace itself; absolute paths and paths with `..` are
    /// refused.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        if text.len() > PATH_BYTES {
            return Err(FileError::BadPath(format!("a path may have {PATH_BYTES} bytes")));
        }
        if text.contains(char::is_control) {
            return Err(FileError::BadPath("a path may have no control characters".to_owned()));
        }
        if text.starts_with('/') || text.split('/').any(|segment| segment == "..") {
            return Err(FileError::Outside(text.to_owned()));
        }
        let segments: Vec<&str> = text.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        match segments.iter().find(|segment| !is_name(segment)) {
            Some(bad) => Err(FileError::BadPath(format!(
                "'{bad}' cannot be a name: it must have {SEGMENT_BYTES} bytes at most, no '\\', and not only dots"
            ))),
            None => Ok(Self(segments.join("/"))),
        }
    }

    /// The path for clients; empty for the workspace itself.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path for system calls and errors.
    pub(super) fn target(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// The parent directory and the name in it. Fails for the workspace itself; `verb` completes the error.
    pub(super) fn entry(&self, verb: &str) -> Result<(&str, &str), FileError> {
        match self.0.rsplit_once('/') {
            Some(parts) => Ok(parts),
            None if self.0.is_empty() => {
                Err(FileError::BadPath(format!("a project's or a job's own directory cannot be {verb}")))
            }
            None => Ok((".", &self.0)),
        }
    }

    /// The path of a child, for clients.
    pub(super) fn child(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }

    /// Whether this path is below the other one.
    pub(super) fn is_below(&self, above: &Self) -> bool {
        self.0.strip_prefix(&above.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether a client can address a file of this name.
pub(super) fn is_name(name: &str) -> bool {
    let fits =
        name.len() <= SEGMENT_BYTES && !name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\'));
    fits && !name.trim_matches('.').is_empty()
}

/// The directory's name, validated although it comes from the store. A project never has the directory of a
/// job's workspaces.
pub(super) fn directory(workspace: &Workspace) -> Result<&str, FileError> {
    let name = workspace.directory.as_str();
    let is_fine = is_name(name) && !name.starts_with('.');
    is_fine.then_some(name).ok_or_else(|| FileError::Io("the directory has no proper name".to_owned()))
}
