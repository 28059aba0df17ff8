//! Stores a job that was in memory: all that its submission, its claim and its appends would have written.

use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::jobs::JobOwnerKey;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::lease::{LeasedJob, LogTail};
use std::sync::Arc;

impl Transaction<'_> {
    /// Stores the job if it is in memory; it keeps its lease. It leaves the memory with the commit.
    pub(crate) fn store_volatile(&mut self, id: JobId) -> Result<(), StoreError> {
        let Some(volatile) = self.volatile.leave(id) else { return Ok(()) };
        if self.find_row(id)?.is_some() {
            // By this group, or by a commit of unknown outcome.
            self.mark_dirty();
            self.effects.stored_volatile.push(id);
            return Ok(());
        }
        let (mut row, spec, cancel, mut log) = (volatile.row, volatile.spec, volatile.cancel, volatile.log);
        self.tables.specs.put_row(&id.to_bytes(), &*spec)?;
        row.accept = self.count_accepted();
        self.effects.metrics.claim(0);
        let key = JobOwnerKey { user: row.job.user, status: row.job.status, accept: row.accept };
        self.tables.owned.insert(&key.encode(), &id.to_bytes())?;
        self.tables.running.insert(&id.to_bytes(), ())?;
        let (entries, tail) = log.numbered();
        let mut tail = LogTail { link: row.chain_start(), ..tail };
        entries.iter().try_for_each(|entry| self.tables.write(id, &mut tail, entry))?;
        row.job.last_event_id = tail.seq;
        self.put_row(&row)?;
        self.effects.stored_volatile.push(id);
        self.keep(LeasedJob { row: Arc::new(row), spec, cancel, tail });
        Ok(())
    }
}
