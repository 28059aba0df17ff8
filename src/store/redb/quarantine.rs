//! Jobs of which something cannot be read: a bad sector, a file edited by hand. Owns how they are set aside, so that one
//! bad row blocks neither the queue nor the opening; refuses to delete what is left of them, which an operator may need.

use super::keys::TurnBytes;
use super::table::ReadableTable;
use super::transaction::Transaction;
use crate::domain::id::JobId;
use crate::ports::StoreError;

impl Transaction<'_> {
    /// Takes a job out of what runs and out of its conversation. Whoever asks has taken it out of its queue.
    pub(super) fn quarantine(&mut self, job: JobId, reason: &str) -> Result<(), StoreError> {
        self.report_quarantine(job, reason);
        self.tables.running.remove(&job.to_bytes())?;
        // Its row may not say which conversation it is in: the lines do.
        if let Some(key) = self.line_of_job(job)? {
            self.tables.lines.remove(&key)?;
            self.let_in_next(&key)?;
        }
        self.lose_beside(job)?;
        self.lose(job)
    }

    /// Nobody waits for a job any more that cannot be read.
    pub(super) fn lose(&mut self, job: JobId) -> Result<(), StoreError> {
        self.counters.unfinished = self.counters.unfinished.saturating_sub(1);
        match self.lose_line(job) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(%job, reason, "its batch cannot be read either");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Tells the operator, and commits what the caller took out.
    pub(super) fn report_quarantine(&mut self, job: JobId, reason: &str) {
        tracing::error!(%job, reason, "a stored job cannot be read: it is set aside, its row stays");
        self.touch();
    }

    fn line_of_job(&self, job: JobId) -> Result<Option<TurnBytes>, StoreError> {
        for entry in self.tables.lines.iter()? {
            let (key, member) = entry?;
            if *member.value() == job.to_bytes() {
                return Ok(Some(*key.value()));
            }
        }
        Ok(None)
    }
}
