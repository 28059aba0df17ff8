//! The jobs of a conversation, of which one at a time is in a queue. Background jobs are in their own list
//! instead.

use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::{TurnBytes, TurnKey};
use crate::store::redb::codec::keys::jobs::JobBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::{JobRow, QueuePlace};

impl Transaction<'_> {
    /// Queues a job: behind its conversation, delayed, or ready.
    pub(crate) fn enqueue(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        if self.add_background_job(row)? {
            return self.enter_queue(row);
        }
        if let Some(key) = row.turn_key().map(TurnKey::encode) {
            self.tables.conversation_queue.insert(&key, &row.id().to_bytes())?;
            if self.conversation_head(&key)?.is_none_or(|(_, head)| head != row.id()) {
                row.queue_place = QueuePlace::Behind;
                return Ok(());
            }
        }
        self.enter_queue(row)
    }

    /// Removes an ended job from every queue and queues the next job of its conversation.
    pub(crate) fn leave_queues(&mut self, row: &mut JobRow) -> Result<(), StoreError> {
        self.remove_from_queue(row)?;
        self.counters.unfinished = self.counters.unfinished.saturating_sub(1);
        if self.remove_background_job(row)? {
            return Ok(());
        }
        let Some(key) = row.turn_key().map(TurnKey::encode) else { return Ok(()) };
        self.tables.conversation_queue.remove(&key)?;
        self.admit_next(&key)
    }

    /// Queues the first job of a conversation. `member` is any key of the conversation.
    pub(crate) fn admit_next(&mut self, member: &TurnBytes) -> Result<(), StoreError> {
        while let Some((key, job)) = self.conversation_head(member)? {
            match self.row(job) {
                Ok(mut next) if next.queue_place == QueuePlace::Behind => {
                    self.enter_queue(&mut next)?;
                    return self.put_row(&next);
                }
                Ok(_) => break,
                Err(StoreError::Corrupt(reason)) => {
                    self.report_quarantine(job, &reason);
                    self.tables.conversation_queue.remove(&key)?;
                    self.count_lost(job)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The job of a conversation whose turn it is.
    fn conversation_head(&self, member: &TurnBytes) -> Result<Option<(TurnBytes, JobId)>, StoreError> {
        let (first, last) = TurnKey::conversation_range(member);
        let head = self.tables.conversation_queue.range::<&TurnBytes>(&first..=&last)?.next().transpose()?;
        Ok(head.map(|(key, job)| (*key.value(), JobId::from_bytes(*job.value()))))
    }
}

/// Unfinished jobs of a conversation in order, including those of a removed one with this name. `member` is
/// any key of the conversation.
pub(crate) fn unfinished(
    lines: &impl ReadableTable<&'static TurnBytes, &'static JobBytes>,
    member: &TurnBytes,
) -> Result<Vec<JobId>, StoreError> {
    let (first, last) = TurnKey::conversation_range(member);
    let line = lines.range::<&TurnBytes>(&first..=&last)?;
    line.map(|entry| Ok(JobId::from_bytes(*entry?.1.value()))).collect()
}
