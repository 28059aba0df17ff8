//! Appends to the log of a leased job. A lost lease and a terminal event are errors (P4).

use crate::domain::event::Record;
use crate::ports::{Fence, LeaseError};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::job::refuse_terminal;
use std::sync::Arc;

impl Act<'_> {
    /// Appends records to the log of a leased job, in order.
    pub(crate) fn append_records(&mut self, fence: Fence, records: &[Record]) -> Result<(), LeaseError> {
        if records.is_empty() {
            return self.check_fence(fence);
        }
        refuse_terminal(records)?;
        let mut leased = self.lease(fence)?;
        for record in records {
            self.append(fence.job, &mut leased.tail, record)?;
        }
        // The row is copied only when it changes: most records are deltas.
        if let Some(spent) = leased.row.spent(records) {
            Arc::make_mut(&mut leased.row).enter(&spent);
            self.put_leased_row(&leased.row);
        }
        self.keep(leased);
        Ok(())
    }
}
