//! The hash chains of jobs' logs, for those who verify them.

use super::store_error::StoreError;
use super::ticket::Ticket;
use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::{LogChain, LogCheckpoint, LogPublicKey, LogSignature, StoredCheckpoint};

/// Reads logs byte for byte.
pub trait LogChains: Send + Sync {
    /// The log of a job, if the job is this user's. One that is in memory has no records yet.
    fn log_chain(&self, user: UserId, job: JobId) -> Result<Option<LogChain>, StoreError>;
    /// The key that verifies what retention has noted about logs, once the server has set it.
    fn log_public_key(&self) -> Option<LogPublicKey>;
    /// A signature of the server's key, with the public key; `None` before the server has set it.
    fn sign(&self, message: &[u8]) -> Option<(LogPublicKey, LogSignature)>;
    /// Makes a checkpoint of the jobs that have ended since the last one. `None`: there are none, or the
    /// server has not set its key. The store makes one a day by itself.
    fn make_checkpoint(&self) -> Ticket<Option<LogCheckpoint>>;
    /// Checkpoints behind this number, oldest first.
    fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<StoredCheckpoint>, StoreError>;
}
