//! The port [`LogChains`] on the store of one file.

use crate::domain::id::{JobId, UserId};
use crate::domain::log_chain::{
    LogChain, LogCheckpoint, LogPublicKey, LogSignature, LogSigningKey, StoredCheckpoint,
};
use crate::ports::{LogChains, StoreError, Ticket};
use crate::store::redb::codec::tables::{LOG, LOG_CHECKPOINTS};
use crate::store::redb::jobs::chain::records;
use crate::store::redb::jobs::read;
use crate::store::redb::retention::checkpoints;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::write::WriteOptions;

impl LogChains for RedbStore {
    fn log_chain(&self, user: UserId, job: JobId) -> Result<Option<LogChain>, StoreError> {
        if let Some(row) = self.shared.volatile.with(job, |volatile| volatile.row.clone()) {
            return Ok(Some(row.log_chain(Vec::new())).filter(|_| row.job.user == user));
        }
        self.read(|reading| {
            let row = read::row(reading, job)?.filter(|row| row.job.user == user);
            row.map(|row| Ok(row.log_chain(records(&LOG.read(reading)?, job)?))).transpose()
        })
    }

    fn log_public_key(&self) -> Option<LogPublicKey> {
        self.shared.log_key.get().map(LogSigningKey::public_key)
    }

    fn sign(&self, message: &[u8]) -> Option<(LogPublicKey, LogSignature)> {
        self.shared.log_key.get().map(|key| (key.public_key(), key.sign(message)))
    }

    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is of one lifetime, the closure of any"
    )]
    fn make_checkpoint(&self) -> Ticket<Option<LogCheckpoint>> {
        self.offer(WriteOptions::default(), |transaction| transaction.make_checkpoint())
    }

    fn checkpoints(&self, after: u64, limit: usize) -> Result<Vec<StoredCheckpoint>, StoreError> {
        self.read(|reading| checkpoints::after(&LOG_CHECKPOINTS.read(reading)?, after, limit))
    }
}
