//! Deletes an ended job with its row, input, output, log, list entries and position in its conversation.
//! Usage stays. A new table that names jobs has to be cleared here, too.

use crate::domain::id::{JobId, UserId};
use crate::ports::{JobChangeError, StoreError};
use crate::store::redb::codec::keys::jobs::{EndedKey, JobOwnerKey, LogBytes, LogKey};
use crate::store::redb::codec::row_bytes::RowOwner;
use crate::store::redb::retention::sweep::STAGES;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// Deletes an ended job of a user.
    pub(crate) fn delete_job(&mut self, user: UserId, job: JobId) -> Result<bool, JobChangeError> {
        let Some(row) = self.find_own_row(user, job)? else { return Ok(false) };
        if !row.job.status.is_terminal() {
            return Err(JobChangeError::WrongState { status: row.job.status });
        }
        Ok(self.forget(job)?)
    }

    /// Deletes a job with all its data, if it has ended. Returns whether it was deleted.
    pub(crate) fn forget(&mut self, job: JobId) -> Result<bool, StoreError> {
        let Some(row) = self.find_row(job)?.filter(|row| row.job.status.is_terminal()) else {
            return Ok(false);
        };
        let id = job.to_bytes();
        self.set_row_owner(RowOwner::Job(job), row.job.user);
        self.free_log(LogKey { job, seq: 0, sub: 0 }.encode(), LogKey::last(job).encode())?;
        let mut freed = 0;
        for table in [&mut self.tables.jobs, &mut self.tables.specs, &mut self.tables.outputs] {
            freed += table.remove(&id)?.map_or(0, |bytes| bytes.value().len());
        }
        self.release_images(row.job.user, job.into())?;
        self.forget_answers(job)?;
        self.unlist_completion(row.job.user, job)?;
        if let Some(turn) = row.turn_key() {
            let key = turn.encode();
            freed += self.leave_conversation(turn)?;
            freed += self.tables.turns.remove(&key)?.map_or(0, |bytes| bytes.value().len());
            freed += self.forget_items(&key)?;
            freed += self.forget_summary(turn)?;
        }
        let owned = JobOwnerKey { user: row.job.user, status: row.job.status, accept: row.accept };
        self.tables.owned.remove(&owned.encode())?;
        let finished_at_ms = row.job.finished_at_ms.unwrap_or_default();
        for stage in STAGES {
            self.tables.ended.remove(&EndedKey { stage, finished_at_ms, job }.encode())?;
        }
        self.count_freed(freed);
        self.effects.removed_jobs.push((row.job.user, job));
        Ok(true)
    }

    /// Removes a range of a log; the second key is excluded.
    pub(crate) fn free_log(&mut self, from: LogBytes, to: LogBytes) -> Result<usize, StoreError> {
        let mut freed = 0;
        self.tables.log.retain_in::<&LogBytes>(&from..&to, |key, value| {
            freed += key.len() + value.len();
            false
        })?;
        self.count_freed(freed);
        Ok(freed)
    }

    /// Counts freed bytes. The next start uses the sum to decide about a compaction.
    pub(crate) fn count_freed(&mut self, bytes: usize) {
        self.mark_dirty();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.counters.freed_bytes = self.counters.freed_bytes.saturating_add(bytes);
    }
}
