//! Quarantines jobs that cannot be read, so that one bad row blocks neither the queue nor the opening. Their
//! rows stay for the operator.

use crate::domain::id::JobId;
use crate::ports::StoreError;
use crate::store::redb::codec::keys::conversations::TurnBytes;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// Removes a job from the running jobs and from its conversation. The caller has removed it from its
    /// queue.
    pub(crate) fn quarantine(&mut self, job: JobId, reason: &str) -> Result<(), StoreError> {
        self.report_quarantine(job, reason);
        self.tables.running.remove(&job.to_bytes())?;
        // Its row may not name its conversation, so search the conversation queues.
        if let Some(key) = self.queue_key_of(job)? {
            self.tables.conversation_queue.remove(&key)?;
            self.admit_next(&key)?;
        }
        self.remove_unreadable_background_job(job)?;
        self.count_lost(job)
    }

    /// The job no longer counts as unfinished, its batch counts a failed line, and others do not wait for it.
    pub(crate) fn count_lost(&mut self, job: JobId) -> Result<(), StoreError> {
        self.counters.unfinished = self.counters.unfinished.saturating_sub(1);
        self.release_dependents(job, false)?;
        match self.fail_lost_line(job) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(%job, reason, "batch of the job cannot be read");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Logs the job, and commits the removals of the caller.
    pub(crate) fn report_quarantine(&mut self, job: JobId, reason: &str) {
        tracing::error!(%job, reason, "stored job cannot be read; it is set aside");
        self.mark_dirty();
    }

    fn queue_key_of(&self, job: JobId) -> Result<Option<TurnBytes>, StoreError> {
        for entry in self.tables.conversation_queue.iter()? {
            let (key, member) = entry?;
            if *member.value() == job.to_bytes() {
                return Ok(Some(*key.value()));
            }
        }
        Ok(None)
    }
}
