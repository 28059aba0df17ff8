//! The error that every port of the store shares. A port with further errors has its own
//! enum, with this one as its last variant.

/// Why the store failed. Texts are for the caller, except those for which [`StoreError::is_internal`] is
/// true: these are for the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The write channel is full; try again in a moment (HTTP: 503 with `Retry-After`).
    #[error("the server is busy writing, try again in a moment")]
    Busy,
    /// The disk or the file failed; the message has the reason.
    #[error("the store failed: {0}")]
    Io(String),
    /// The file is repaired after a disk error; try again in a moment (HTTP: 503 with `Retry-After`).
    #[error("the store is recovering from a disk error, try again in a moment")]
    Recovering,
    /// The database of the store cannot be reached; try again in a moment (HTTP: 503 with `Retry-After`).
    #[error("the database cannot be reached, try again in a moment")]
    Unreachable,
    /// This node may not use the contents of files now (HTTP: 503).
    #[error("{0}")]
    FilesUnavailable(String),
    /// The disk is full.
    #[error("the disk is full; running jobs may finish, new ones are refused")]
    Full,
    /// The disk is nearly full; only new work is refused (HTTP: 507).
    #[error(
        "the disk is nearly full: {} are free, {} have to be (limits.disk_free_bytes, limits.disk_free_percent); \
         running jobs may finish, new ones are refused until there is room",
        mebibytes(*.free_bytes), mebibytes(*.needed_bytes)
    )]
    LowDisk {
        /// Free bytes.
        free_bytes: u64,
        /// Bytes that must be free.
        needed_bytes: u64,
    },
    /// The store's file has lost its name, or another file has it (HTTP: 503).
    #[error(
        "the file of the store was moved, removed or replaced under the server, so nothing more is accepted: put it \
         back, or save what it holds (nanoclaw backup FILE) and restart the server"
    )]
    Misplaced,
    /// A newer version wrote what this node cannot read; a node of that version can (HTTP: 503).
    #[error("{0}")]
    Outdated(String),
    /// A stored value cannot be read.
    #[error("the store holds a value that cannot be read: {0}")]
    Corrupt(String),
    /// The store is shut down.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// Whether the text is for the log only: it can hold paths and offsets.
    pub fn is_internal(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Corrupt(_))
    }

    /// Whether no write succeeds after it until the file is reopened.
    pub fn breaks_store(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Full | Self::Misplaced | Self::Recovering)
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes / (1024 * 1024))
}
