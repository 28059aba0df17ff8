//! Stores the files with the results of a batch. Rows of files and of the batch change in one transaction.

use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, UserId};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{BatchFiles, StoreError};
use crate::store::redb::codec::keys::batches::OwnedBatchKey;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::BATCHES_WITHOUT_FILES;
use crate::store::redb::writer::transaction::Transaction;

impl Transaction<'_> {
    /// Stores the files of an ended batch that still awaits them. Files of an earlier end are removed.
    pub(crate) fn attach_batch_files(
        &mut self,
        (user, batch): (UserId, BatchId),
        files: &BatchFiles,
    ) -> Result<Option<Batch>, StoreError> {
        let found = self.find_batch(batch)?.filter(|row| {
            let is_same_end = row.batch.finished_at_ms == Some(files.finished_at_ms);
            row.batch.user == user && row.batch.lacks_files() && is_same_end
        });
        let Some(mut row) = found else { return Ok(None) };
        let Some(source) = &mut row.batch.source else { return Ok(None) };
        self.refuse_low_disk()?;
        for old in [source.output_file.take(), source.error_file.take()].into_iter().flatten() {
            self.delete_file(user, old)?;
        }
        for file in files.output.iter().chain(&files.errors) {
            self.put_file(file)?;
        }
        source.output_file = files.output.as_ref().map(|file| file.id);
        source.error_file = files.errors.as_ref().map(|file| file.id);
        source.files_at_ms = Some(self.now_ms);
        self.tables.batches_without_files.remove(&OwnedBatchKey { user, batch }.encode())?;
        if let Some(url) = row.batch.webhook_url.clone() {
            self.report(user, WebhookSubject::Batch(batch), &url)?;
        }
        self.put_batch(&row)?;
        Ok(Some(row.batch))
    }
}

/// Batches whose files with results are not written.
pub(crate) fn without_files(reading: &ReadTransaction) -> Result<Vec<(UserId, BatchId)>, StoreError> {
    let waiting = BATCHES_WITHOUT_FILES.read(reading)?.skipping_damaged();
    let key = |key: OwnedBatchKey| (key.user, key.batch);
    waiting.iter()?.map(|entry| Ok(key(OwnedBatchKey::decode(entry?.0.value())))).collect()
}
