//! The port [`SpanExports`] on the store of one file: one process takes all.

use crate::ports::{SpanExport, SpanExports, StoreError, Ticket, Urgency};
use crate::store::redb::codec::keys::jobs::SpanExportKey;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::SPAN_EXPORTS;
use crate::store::redb::store::RedbStore;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::WriteOptions;
use crate::store::rows::job::JobRow;

impl From<SpanExport> for SpanExportKey {
    fn from(SpanExport { finished_at_ms, job, user }: SpanExport) -> Self {
        Self { finished_at_ms, job, user }
    }
}

impl From<SpanExportKey> for SpanExport {
    fn from(SpanExportKey { finished_at_ms, job, user }: SpanExportKey) -> Self {
        Self { finished_at_ms, job, user }
    }
}

impl Transaction<'_> {
    /// Queues the spans of a job, in the transaction of its end.
    pub(crate) fn queue_span_export(&mut self, row: &JobRow) -> Result<(), StoreError> {
        if self.bounds.exports_spans {
            let key = SpanExportKey { finished_at_ms: self.now_ms, job: row.id(), user: row.job.user };
            self.tables.span_exports.insert(&key.encode(), ())?;
        }
        Ok(())
    }
}

impl SpanExports for RedbStore {
    fn take_span_exports(&self, max: usize, _: u64) -> Result<Vec<SpanExport>, StoreError> {
        self.read(|reading| {
            let waiting = SPAN_EXPORTS.read(reading)?;
            let oldest = waiting.iter()?.take(max);
            oldest.map(|entry| Ok(SpanExportKey::decode(entry?.0.value()).into())).collect()
        })
    }

    fn remove_span_exports(&self, exports: Vec<SpanExport>) -> Ticket<()> {
        let options = WriteOptions { urgency: Urgency::Soon, ..WriteOptions::default() };
        self.push(options, move |transaction| {
            for export in &exports {
                transaction.tables.span_exports.remove(&SpanExportKey::from(*export).encode())?;
            }
            transaction.mark_dirty();
            Ok(())
        })
    }

    fn waiting_span_exports(&self, limit: usize) -> Result<u64, StoreError> {
        self.read(|reading| Ok(SPAN_EXPORTS.read(reading)?.iter()?.take(limit).count() as u64))
    }
}
