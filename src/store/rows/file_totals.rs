//! The sums of a user's files and images, and the limits of new files.

use crate::ports::StoredFileError;
use crate::store::limits::StoreLimits;
use serde::{Deserialize, Serialize};

/// The files of a user together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FileTotals {
    /// Number of files.
    pub(crate) files: u64,
    /// Bytes of their contents, each counted for each file that has it.
    pub(crate) bytes: u64,
    /// Bytes of images, each counted for each job, line, schedule and row of items that names it.
    #[serde(default)]
    pub(crate) image_bytes: u64,
}

impl FileTotals {
    /// Bytes of files and images.
    pub(crate) fn all_bytes(self) -> u64 {
        self.bytes.saturating_add(self.image_bytes)
    }

    /// Fails if one more file of so many bytes is too many.
    pub(crate) fn admit(self, new: u64, limits: &StoreLimits) -> Result<(), StoredFileError> {
        let (stored, limit) = (self.bytes, limits.user_files_bytes);
        if self.files >= limits.user_files {
            return Err(StoredFileError::FilesFull { limit: limits.user_files });
        }
        if stored.saturating_add(new) > limit {
            return Err(StoredFileError::BytesFull { new, stored, limit });
        }
        Ok(())
    }
}
