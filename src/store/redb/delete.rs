//! Deleting an ended job because somebody asked for it. Refuses jobs that have not ended, and other users' (P7).

use super::act::Act;
use super::transaction::Transaction;
use crate::domain::id::{JobId, UserId};
use crate::ports::StoreError;

/// This job of this user.
pub(super) struct Delete {
    pub(super) user: UserId,
    pub(super) job: JobId,
}

impl Act for Delete {
    type Out = bool;

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<bool, StoreError> {
        let found = transaction.find_row(self.job)?;
        let Some(row) = found.filter(|row| row.job.user == self.user) else { return Ok(false) };
        if !row.job.status.is_terminal() {
            return Err(StoreError::WrongState { status: row.job.status });
        }
        transaction.forget(self.job)
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.job]
    }
}
