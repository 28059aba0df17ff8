//! Files that several nodes share: whether this node may use them, and locks over all nodes. All calls block.

use std::any::Any;

/// The file in the shared directory that shows that a node sees the directory of the others.
pub const BEACON_FILE: &str = "nanoclaw.beacon";
/// The name of its number among the settings of the database.
pub const BEACON_SETTING: &str = "shared_dir_beacon";

/// What a lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SharedLockKind {
    /// The files of a workspace while they change.
    Workspace,
    /// The directory of a project that is created or removed.
    ProjectDirectory,
    /// Contents between their name and their row.
    Content,
    /// The work of the node that removes what nothing needs any more.
    Cleaner,
}

impl SharedLockKind {
    /// The name of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ProjectDirectory => "project",
            Self::Content => "content",
            Self::Cleaner => "cleaner",
        }
    }
}

/// Who else may hold a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Other shared holders.
    Shared,
    /// Nobody.
    Exclusive,
}

/// A lock over all nodes. Keys share 256 slots of each kind, so that the lock files are few and stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedLock {
    /// What it protects.
    pub kind: SharedLockKind,
    /// Its slot.
    pub slot: u8,
    /// Who else may hold it.
    pub mode: LockMode,
}

impl SharedLock {
    /// The lock of a key.
    pub fn of(kind: SharedLockKind, key: &str, mode: LockMode) -> Self {
        Self { kind, slot: lock_slot(key), mode }
    }
}

/// The slot of a key: FNV-1a, because all versions of the server must agree.
pub fn lock_slot(key: &str) -> u8 {
    let hash =
        key.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.to_le_bytes().into_iter().fold(0, |slot, byte| slot ^ byte)
}

/// A lock until it is dropped or its process ends.
pub type HeldLock = Box<dyn Any + Send>;

/// Space of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Space that this process may use.
    pub free_bytes: u64,
    /// Its size.
    pub total_bytes: u64,
}

/// The directory that nodes share, as this node has seen it last. No call blocks: a network file system that
/// does not answer holds each thread that asks it.
pub trait SharedDirState: Send + Sync {
    /// Why this node may not use the directory now; then it takes no jobs.
    fn fault(&self) -> Option<String>;
    /// Space of its file system; `None`: not known.
    fn space(&self) -> Option<DiskSpace>;
}

/// The files that this node shares with others. Errors are reasons for clients.
pub trait SharedFiles: Send + Sync {
    /// Fails while this node may not use the files.
    fn check(&self) -> Result<(), String>;
    /// A name that no other process has, as a part of names of files.
    fn process_tag(&self) -> &str;
    /// Takes a lock. Waits a few seconds for its other holders.
    fn lock(&self, lock: SharedLock) -> Result<HeldLock, String>;
    /// Takes a lock, unless another holder is in the way.
    fn try_lock(&self, lock: SharedLock) -> Result<Option<HeldLock>, String>;
}
