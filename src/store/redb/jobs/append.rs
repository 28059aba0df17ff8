//! Appends to the log of a leased job. A lost lease and a terminal event are errors (P4).

use crate::domain::event::{EngineMark, Event, Record};
use crate::ports::{Fence, LeaseError, StoreError};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::BASE_WEIGHT;
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

/// Refuses terminal events: only the transaction that ends a job writes them.
pub(crate) fn refuse_terminal(records: &[Record]) -> Result<(), StoreError> {
    let is_terminal = |record: &Record| matches!(record, Record::Event(event) if event.is_terminal());
    if records.iter().any(is_terminal) {
        return Err(StoreError::Corrupt("a terminal event among a job's records".to_owned()));
    }
    Ok(())
}

/// Approximate size of a record.
pub(crate) fn record_bytes(record: &Record) -> usize {
    let text = match record {
        Record::Event(Event::Delta { text, .. }) => text.len(),
        Record::Event(Event::ToolCall { call, .. }) => call.arguments.len(),
        Record::Event(Event::ToolResult { content, .. } | Event::Summary { content, .. })
        | Record::Mark(EngineMark::ToolFinished { content, .. } | EngineMark::ToolWhole { content, .. }) => {
            content.len()
        }
        Record::Mark(EngineMark::ModelFinished { echo: Some(echo), .. }) => echo.parts.to_string().len(),
        _ => 0,
    };
    text.saturating_add(BASE_WEIGHT / 2)
}
