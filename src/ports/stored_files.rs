//! Rows of uploaded files. For their contents see [`super::Contents`].

use super::quota_refusal::QuotaRefusal;
use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{FileId, UserId};
use crate::domain::stored_file::{ContentDigest, FilePurpose, StoredFile};

/// Why a file was not stored. The texts are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoredFileError {
    /// The user has `limits.user_files` files already (HTTP: 429).
    #[error("there are {limit} files already (limits.user_files); delete some first")]
    FilesFull {
        /// The limit.
        limit: u64,
    },
    /// The files of the user would be too large together (HTTP: 413).
    #[error(
        "{new} new bytes are too many: your files hold {stored}, and may hold {limit} together \
         (limits.user_files_bytes); delete some first"
    )]
    BytesFull {
        /// Bytes of the new file.
        new: u64,
        /// Bytes of the user's files.
        stored: u64,
        /// The limit.
        limit: u64,
    },
    /// The account's quota is used up (HTTP: 429).
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Filter and position of a list of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFileQuery {
    /// Owner.
    pub user: UserId,
    /// Only files for this purpose.
    pub purpose: Option<FilePurpose>,
    /// Only files behind this one in the list.
    pub after: Option<FileId>,
    /// The newest first, else the oldest.
    pub is_newest_first: bool,
    /// Page size.
    pub limit: usize,
}

/// A page of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredFilePage {
    /// The files.
    pub files: Vec<StoredFile>,
    /// Whether more follow.
    pub has_more: bool,
}

/// Stores the rows of files. Files that have expired are removed by retention.
pub trait StoredFiles: Send + Sync {
    /// Stores a file whose content is on the disk. The retention of the configuration may set an earlier
    /// expiry: the answer has it.
    fn add_file(&self, file: StoredFile) -> Ticket<StoredFile, StoredFileError>;
    /// Deletes a file. Returns it, or `None` when the user has no such file.
    fn delete_file(&self, user: UserId, id: FileId) -> Ticket<Option<StoredFile>>;
    /// The contents of these that no file of any user has. Reads behind all writes so far, and fails while it
    /// is unknown what the disk has.
    fn unused_contents(&self, contents: Vec<ContentDigest>) -> Ticket<Vec<ContentDigest>>;

    /// Fails if the user may not store a file of so many bytes now, or if the disk has no room for them.
    fn check_room(&self, user: UserId, bytes: u64) -> Result<(), StoredFileError>;
    /// The file, or `None` when it is not this user's.
    fn file(&self, user: UserId, id: FileId) -> Result<Option<StoredFile>, StoreError>;
    /// A page of a user's files, by time of their upload.
    fn files(&self, query: &StoredFileQuery) -> Result<StoredFilePage, StoreError>;
}
