//! Appends to the log of a leased job. A lost lease and a terminal event are errors (P4).

use crate::domain::event::{EngineMark, Event, Record};
use crate::domain::id::JobId;
use crate::ports::{Fence, StoreError, Urgency};
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{BASE_WEIGHT, StoreWrite};
use std::sync::Arc;

/// These records, in order.
pub(crate) struct AppendRecords {
    pub(crate) fence: Fence,
    pub(crate) records: Vec<Record>,
    pub(crate) urgency: Urgency,
}

impl StoreWrite for AppendRecords {
    type Output = ();

    fn apply(&self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        if self.records.is_empty() {
            return transaction.prove(self.fence);
        }
        let mut leased = transaction.lease(self.fence)?;
        refuse_terminal(&self.records)?;
        for record in &self.records {
            transaction.tables.append(self.fence.job, &mut leased.tail, record, self.urgency)?;
        }
        // The row is copied only when it changes: most records are deltas.
        if let Some(spent) = leased.row.spent(&self.records) {
            Arc::make_mut(&mut leased.row).enter(&spent);
            transaction.put_row(&leased.row)?;
        }
        transaction.keep(leased);
        Ok(())
    }

    fn jobs(&self) -> Vec<JobId> {
        vec![self.fence.job]
    }

    fn weight(&self) -> usize {
        self.records.iter().map(record_bytes).sum()
    }

    fn urgency(&self) -> Urgency {
        self.urgency
    }
}

/// A terminal event comes with its ending or not at all.
pub(crate) fn refuse_terminal(records: &[Record]) -> Result<(), StoreError> {
    let is_terminal = |record: &Record| matches!(record, Record::Event(event) if event.is_terminal());
    if records.iter().any(is_terminal) {
        return Err(StoreError::Corrupt("a terminal event among a job's records".to_owned()));
    }
    Ok(())
}

/// Roughly a record's size.
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
