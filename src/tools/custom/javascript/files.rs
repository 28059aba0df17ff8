//! Lists and reads the files of `tools_dir` and detects changes. Links are ignored; a world-writable
//! directory is an error.

use super::error::ToolFileError;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

const MAX_FILES: usize = 128;
const MAX_BYTES: u64 = 256 * 1024;

/// The identity and version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    bytes: u64,
    modified_ns: (i64, i64),
    changed_ns: (i64, i64),
}

/// The files that may be tools. A user who may write into the directory may run code with the permissions of
/// a tool.
pub(super) fn tool_files(dir: &Path) -> Result<BTreeMap<String, FileStamp>, ToolFileError> {
    let metadata = fs::metadata(dir)?;
    if metadata.mode() & 0o002 != 0 {
        return Err(ToolFileError::Invalid(
            "everybody may write into it; take that right away (chmod o-w)".to_owned(),
        ));
    }
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_script =
            !name.starts_with('.') && Path::new(&name).extension().is_some_and(|extension| extension == "js");
        if !is_script || !entry.file_type()?.is_file() {
            continue;
        }
        let metadata = entry.metadata()?;
        let stamp = FileStamp {
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: (metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: (metadata.ctime(), metadata.ctime_nsec()),
        };
        files.insert(name, stamp);
        if files.len() > MAX_FILES {
            return Err(ToolFileError::Invalid(format!(
                "it has more than {MAX_FILES} files that end in .js"
            )));
        }
    }
    Ok(files)
}

pub(super) fn read(path: &Path) -> Result<String, ToolFileError> {
    let file = File::options()
        .read(true)
        .custom_flags(
            i32::try_from((rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits()).unwrap_or(0),
        )
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(ToolFileError::Invalid("is no regular file".to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(ToolFileError::Invalid(format!("has more than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| ToolFileError::Invalid("is not UTF-8".to_owned()))
}
