//! Keys of batches and their lines.

use crate::domain::id::{BatchId, UserId};
use crate::store::redb::codec::keys::reader::{KeyPart, KeyReader, join, key};

/// Bytes of a batch's key.
pub(crate) type BatchBytes = [u8; 16];
key! {
    /// A line of a batch, or a number in the order of its lines' ends.
    BatchLineKey, BatchLineBytes = 20 {
        batch: BatchId,
        line: u32,
    }
}

impl BatchLineKey {
    /// The first and the last key that a batch's lines can have.
    pub(crate) fn all_of(batch: BatchId) -> (BatchLineBytes, BatchLineBytes) {
        (Self { batch, line: 0 }.encode(), Self { batch, line: u32::MAX }.encode())
    }
}

key! {
    /// An open batch, by the time at which it expires.
    BatchExpiryKey, BatchExpiryBytes = 24 {
        expires_at_ms: u64,
        batch: BatchId,
    }
}

key! {
    /// A batch in its user's list.
    OwnedBatchKey, OwnedBatchBytes = 20 {
        user: UserId,
        batch: BatchId,
    }
}

impl OwnedBatchKey {
    /// The first and the last key that a user's batches can have.
    pub(crate) fn ends(user: UserId) -> (Self, Self) {
        let key = |bits| Self { user, batch: BatchId::from_bits(bits) };
        (key(0), key(u128::MAX))
    }
}
