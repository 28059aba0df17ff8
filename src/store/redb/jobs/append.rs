//! Appends to the log of a leased job. A lost lease and a terminal event are errors (P4).

use crate::domain::event::Record;
use crate::ports::{Fence, LeaseError};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::job::refuse_terminal;
use std::sync::Arc;

impl Transaction<'_> {
    /// Appends records to the log of a leased job, in order.
    pub(crate) fn append_records(&mut self, fence: Fence, records: &[Record]) -> Result<(), LeaseError> {
        if records.is_empty() {
            return self.check_fence(fence);
        }
        let mut leased = self.lease(fence)?;
        refuse_terminal(records)?;
        for record in records {
            self.tables.append(fence.job, &mut leased.tail, record)?;
        }
        // The row is copied only when it changes: most records are deltas.
        if let Some(spent) = leased.row.spent(records) {
            Arc::make_mut(&mut leased.row).enter(&spent);
            self.put_row(&leased.row)?;
        }
        self.keep(leased);
        Ok(())
    }
}
