//! The objects of `/v1/files`, as `OpenAI` names their members. Times are unix seconds.

use crate::domain::id::FileId;
use crate::domain::stored_file::{FilePurpose, StoredFile};
use crate::ports::StoredFilePage;
use serde::Serialize;

/// A file.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub(crate) struct FileObject {
    id: FileId,
    object: &'static str,
    bytes: u64,
    created_at: u64,
    expires_at: Option<u64>,
    filename: String,
    purpose: FilePurpose,
    status: FileStatus,
}

/// A file can be used at once.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum FileStatus {
    Processed,
}

impl From<StoredFile> for FileObject {
    fn from(file: StoredFile) -> Self {
        Self {
            id: file.id,
            object: "file",
            bytes: file.bytes,
            created_at: file.created_at_ms / 1_000,
            expires_at: file.expires_at_ms.map(|at_ms| at_ms / 1_000),
            filename: file.name,
            purpose: file.purpose,
            status: FileStatus::Processed,
        }
    }
}

/// A page; the next one begins behind `last_id`.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Serialize)]
pub(crate) struct FileListResponse {
    object: &'static str,
    data: Vec<FileObject>,
    first_id: Option<FileId>,
    last_id: Option<FileId>,
    has_more: bool,
}

impl From<StoredFilePage> for FileListResponse {
    fn from(page: StoredFilePage) -> Self {
        Self {
            object: "list",
            first_id: page.files.first().map(|file| file.id),
            last_id: page.files.last().map(|file| file.id),
            has_more: page.has_more,
            data: page.files.into_iter().map(FileObject::from).collect(),
        }
    }
}
