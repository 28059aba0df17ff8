//! Keys of batches and their lines.

use crate::domain::id::{BatchId, UserId};
use crate::store::redb::codec::keys::reader::{KeyReader, join};

/// Bytes of a batch's key.
pub(crate) type BatchBytes = [u8; 16];
/// Bytes of a [`BatchLineKey`].
pub(crate) type BatchLineBytes = [u8; 20];
/// Bytes of an [`OwnedBatchKey`].
pub(crate) type OwnedBatchBytes = [u8; 20];

/// A line of a batch, or a number in the order of its lines' ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchLineKey {
    pub(crate) batch: BatchId,
    pub(crate) line: u32,
}

impl BatchLineKey {
    /// The first and the last key that a batch's lines can have.
    pub(crate) fn all_of(batch: BatchId) -> (BatchLineBytes, BatchLineBytes) {
        (Self { batch, line: 0 }.encode(), Self { batch, line: u32::MAX }.encode())
    }

    pub(crate) fn encode(self) -> BatchLineBytes {
        join(&[&self.batch.to_bytes(), &self.line.to_be_bytes()])
    }

    pub(crate) fn decode(bytes: &BatchLineBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { batch: BatchId::from_bytes(cut.take()), line: cut.u32() }
    }
}

/// A batch in its user's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OwnedBatchKey {
    pub(crate) user: UserId,
    pub(crate) batch: BatchId,
}

impl OwnedBatchKey {
    pub(crate) fn encode(self) -> OwnedBatchBytes {
        join(&[&self.user.0.to_be_bytes(), &self.batch.to_bytes()])
    }

    pub(crate) fn decode(bytes: &OwnedBatchBytes) -> Self {
        let mut cut = KeyReader(bytes);
        Self { user: UserId(cut.u32()), batch: BatchId::from_bytes(cut.take()) }
    }
}
