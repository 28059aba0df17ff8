//! Contents of uploaded files and of images, outside of the store: each is kept once, under its SHA-256.

use super::store_error::StoreError;
use crate::domain::stored_file::ContentDigest;
use std::any::Any;
use std::fs::File;
use std::io::Read;

/// Keeps contents. All calls block.
pub trait Contents: Send + Sync {
    /// Begins a content.
    fn begin(&self) -> Result<Box<dyn IncomingContent>, StoreError>;
    /// Opens a content for reading; `None` when there is none.
    fn open(&self, content: ContentDigest) -> Result<Option<File>, StoreError>;
    /// Reads at most so many bytes of a content into memory; `None` when there is none.
    fn read(&self, content: ContentDigest, most_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(file) = self.open(content)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(most_bytes).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }
    /// Protects a content that is there from removal, as long as the returned value lives; `None` when
    /// there is none.
    fn pin(&self, content: ContentDigest) -> Result<Option<PinnedContent>, StoreError>;
    /// Removes a content, unless a file has it or one is about to. A failure is logged, and the next
    /// [`Contents::sweep`] repeats it.
    fn remove_unused(&self, content: ContentDigest);
    /// Removes all contents that no file has: what a crash or a failed removal has left.
    fn sweep(&self) -> Result<(), StoreError>;
}

/// A content that is being written. Dropped before it is finished, it is removed.
pub trait IncomingContent: Send {
    /// Appends bytes.
    fn write(&mut self, piece: &[u8]) -> Result<(), StoreError>;
    /// The complete content; the disk has it, and its name, when this returns.
    fn finish(self: Box<Self>) -> Result<PinnedContent, StoreError>;
}

/// A complete content, which is not removed while this value lives, although no file has it yet.
pub struct PinnedContent {
    /// Its digest.
    pub digest: ContentDigest,
    /// Its length.
    pub bytes: u64,
    /// Ends the protection when it is dropped.
    pub pin: Box<dyn Any + Send>,
}
