//! Batches whose next lines wait for a quota of their owner. They continue when the quota has room again:
//! after a line of theirs ends, and at a check that the scheduler makes every few seconds.

use crate::domain::id::UserId;
use crate::ports::{NewWork, QuotaRefusal, StoreError};
use crate::store::redb::codec::keys::batches::{OwnedBatchBytes, OwnedBatchKey};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::batch::BatchRow;

/// Most batches that one transaction continues.
const RESUMED: usize = 16;

impl Transaction<'_> {
    /// Records whether the batch waits, and for which quota. The caller writes the row.
    pub(crate) fn set_waiting(
        &mut self,
        row: &mut BatchRow,
        refusal: Option<QuotaRefusal>,
    ) -> Result<(), StoreError> {
        let (batch, user) = (row.batch.id, row.batch.user);
        let quota = refusal.map(QuotaRefusal::kind);
        if quota == row.batch.waiting_for {
            return Ok(());
        }
        let key = OwnedBatchKey { user, batch }.encode();
        if let Some(refusal) = refusal {
            self.tables.waiting_batches.insert(&key, ())?;
            tracing::info!(%batch, user = user.0, %refusal, "batch waits for a quota");
        } else {
            self.tables.waiting_batches.remove(&key)?;
            tracing::info!(%batch, user = user.0, "batch waits no longer");
        }
        row.batch.waiting_for = quota;
        Ok(())
    }

    /// The first user from this number on who has a waiting batch.
    fn waiting_from(&self, user: UserId) -> Result<Option<UserId>, StoreError> {
        let (first, _) = OwnedBatchKey::ends(user);
        let found =
            self.tables.waiting_batches.range::<&OwnedBatchBytes>(&first.encode()..)?.next().transpose()?;
        Ok(found.map(|(key, _)| OwnedBatchKey::decode(key.value()).user))
    }

    /// Starts lines of a user's waiting batches. Returns how many batches were looked at.
    fn resume_batches_of(&mut self, user: UserId, most: usize) -> Result<usize, StoreError> {
        let (first, last) = OwnedBatchKey::ends(user);
        let waiting = self
            .tables
            .waiting_batches
            .range::<&OwnedBatchBytes>(&first.encode()..=&last.encode())?
            .take(most);
        let waiting: Vec<_> = waiting
            .map(|entry| entry.map(|(key, _)| OwnedBatchKey::decode(key.value())))
            .collect::<Result<_, _>>()?;
        for key in &waiting {
            match self.find_batch(key.batch) {
                Ok(Some(mut row)) => {
                    self.start_lines(&mut row)?;
                    self.put_batch(&row)?;
                    if row.batch.waiting_for.is_some() {
                        break;
                    }
                }
                Ok(None) | Err(StoreError::Corrupt(_)) => {
                    tracing::error!(batch = %key.batch, "waiting batch cannot be read; it does not continue");
                    self.tables.waiting_batches.remove(&key.encode())?;
                    self.mark_dirty();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(waiting.len())
    }
}

/// Starts lines of waiting batches whose owner's quota has room. Returns whether there may be more of them.
pub(crate) fn resume_waiting_batches(transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
    let mut resumed = 0_usize;
    let mut next = transaction.waiting_from(UserId(0))?;
    while let Some(user) = next {
        if transaction.line_quota(user)?.admit(NewWork::job(0), transaction.now_ms).is_ok() {
            resumed =
                resumed.saturating_add(transaction.resume_batches_of(user, RESUMED.saturating_sub(resumed))?);
        }
        if resumed >= RESUMED {
            return Ok(true);
        }
        next = user.0.checked_add(1).map_or(Ok(None), |after| transaction.waiting_from(UserId(after)))?;
    }
    Ok(false)
}
