//! Deleting an ended job with all that belongs to it: row, question, answer, log, its entries in lists, its turn and its
//! messages in the conversation and, with the last turn, the conversation's summary. What it has cost stays in the accounts. Refuses jobs
//! that have not ended. Whoever adds a table that names jobs takes its entries out here.

use super::keys::{EndedKey, LogBytes, LogKey, OwnerKey};
use super::queue::line_key;
use super::retention::STAGES;
use super::transaction::Transaction;
use crate::domain::id::JobId;
use crate::ports::StoreError;

impl Transaction<'_> {
    /// Whether there was such a job, and it had ended: then nothing of it is left.
    pub(super) fn forget(&mut self, job: JobId) -> Result<bool, StoreError> {
        let Some(row) = self.find_row(job)?.filter(|row| row.job.status.is_terminal()) else {
            return Ok(false);
        };
        let id = job.to_bytes();
        self.free_log(LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode())?;
        let mut freed = 0;
        for table in [&mut self.tables.jobs, &mut self.tables.specs, &mut self.tables.outputs] {
            freed += table.remove(&id)?.map_or(0, |bytes| bytes.value().len());
        }
        if let Some(place) = line_key(&row) {
            let key = place.encode();
            freed += self.leave_conversation(place)?;
            freed += self.tables.turns.remove(&key)?.map_or(0, |bytes| bytes.value().len());
            freed += self.forget_summary(place)?;
        }
        let owned = OwnerKey { user: row.job.user, status: row.job.status, accept: row.accept };
        self.tables.owned.remove(&owned.encode())?;
        let finished_at_ms = row.job.finished_at_ms.unwrap_or_default();
        for stage in STAGES {
            self.tables.ended.remove(&EndedKey { stage, finished_at_ms, job }.encode())?;
        }
        self.count_freed(freed);
        Ok(true)
    }

    /// Removes what lies in this part of a log, the second key excluded.
    pub(super) fn free_log(&mut self, from: LogBytes, to: LogBytes) -> Result<usize, StoreError> {
        let mut freed = 0;
        self.tables.log.retain_in::<&LogBytes>(&from..&to, |key, value| {
            freed += key.len() + value.len();
            false
        })?;
        self.count_freed(freed);
        Ok(freed)
    }

    /// So many bytes of the file have become free: the next start may find it worth a compaction.
    pub(super) fn count_freed(&mut self, bytes: usize) {
        self.touch();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.counters.freed_bytes = self.counters.freed_bytes.saturating_add(bytes);
    }
}
