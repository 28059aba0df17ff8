//! Paths as clients write them. Owns what a path may look like; refuses to ask the disk about one.

use crate::ports::FileError;

/// The longest path, bytes; the kernel takes no longer one.
const PATH_BYTES: usize = 4_095;
/// The longest segment, bytes: file systems take 255.
const SEGMENT_BYTES: usize = 255;

/// A path below a project: segments joined by `/`, none of them empty, only dots, or with a separator or a control
/// character in it. Empty for the project's own directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectPath(String);

impl ProjectPath {
    /// Reads a client's path. `""` and `.` are the project's own directory; what is absolute or has a `..` is outside,
    /// even if it would come back.
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

    /// As clients are told; empty for the project's own directory.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As the kernel is asked, and errors say it.
    pub(super) fn target(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// The directory that it lies in, as the kernel is asked, and its name there. The project's own directory has
    /// neither, for `verb` at least.
    pub(super) fn entry(&self, verb: &str) -> Result<(&str, &str), FileError> {
        match self.0.rsplit_once('/') {
            Some(parts) => Ok(parts),
            None if self.0.is_empty() => {
                Err(FileError::BadPath(format!("the project's own directory cannot be {verb}")))
            }
            None => Ok((".", &self.0)),
        }
    }

    /// The path of what lies in it, as clients are told.
    pub(super) fn child(&self, name: &str) -> String {
        if self.0.is_empty() { name.to_owned() } else { format!("{}/{name}", self.0) }
    }

    /// Whether this lies below the other one.
    pub(super) fn is_below(&self, above: &Self) -> bool {
        self.0.strip_prefix(&above.0).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// Whether a client could ask for a file of this name.
pub(super) fn is_name(name: &str) -> bool {
    let fits =
        name.len() <= SEGMENT_BYTES && !name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\'));
    fits && !name.trim_matches('.').is_empty()
}
