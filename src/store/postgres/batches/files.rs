//! Stores the files with the results of a batch. Rows of files and of the batch change in one transaction.

use crate::domain::batch::Batch;
use crate::domain::id::{BatchId, UserId};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{BatchFiles, StoreError};
use crate::store::postgres::session::{Columns, SqlSession};
use crate::store::postgres::writer::act::Act;

impl Act<'_> {
    /// Stores the files of an ended batch that still awaits them. Files of an earlier end are removed.
    pub(crate) async fn attach_batch_files(
        &mut self,
        (user, batch): (UserId, BatchId),
        files: &BatchFiles,
    ) -> Result<Option<Batch>, StoreError> {
        let found = self.lock_batch(batch).await?.filter(|row| {
            let is_same_end = row.batch.finished_at_ms == Some(files.finished_at_ms);
            row.batch.user == user && row.batch.lacks_files() && is_same_end
        });
        let Some(mut row) = found else { return Ok(None) };
        let Some(source) = &mut row.batch.source else { return Ok(None) };
        for old in [source.output_file.take(), source.error_file.take()].into_iter().flatten() {
            self.delete_file(user, old).await?;
        }
        for file in files.output.iter().chain(&files.errors) {
            self.put_file(file).await?;
        }
        source.output_file = files.output.as_ref().map(|file| file.id);
        source.error_file = files.errors.as_ref().map(|file| file.id);
        source.files_at_ms = Some(self.now_ms);
        if let Some(url) = row.batch.webhook_url.clone() {
            self.report(user, WebhookSubject::Batch(batch), &url).await?;
        }
        self.put_batch(&row).await?;
        Ok(Some(row.batch))
    }
}

/// Batches whose files with results are not written: all, or those that have ended.
pub(crate) async fn without_files(
    session: &SqlSession<'_>,
    have_ended: bool,
) -> Result<Vec<(UserId, BatchId)>, StoreError> {
    let sql = "SELECT user_id, id FROM batches WHERE misses_files AND (NOT $1 OR finished_at_ms IS NOT NULL) \
               ORDER BY user_id, id";
    session.rows(sql, &[&have_ended]).await?.iter().map(|row| Ok((row.user(0)?, row.parsed(1)?))).collect()
}
