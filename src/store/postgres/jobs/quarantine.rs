//! Sets jobs aside that cannot be read, so that one bad row blocks neither the queue, nor its conversation,
//! nor the other jobs of a lost node. Their rows stay for the operator.

use crate::domain::id::{ConversationId, JobId};
use crate::ports::StoreError;
use crate::store::postgres::session::Columns;
use crate::store::postgres::writer::act::Act;
use tokio_postgres::Row;

impl Act<'_> {
    /// What was read of a job; `None` if it is unreadable, and set aside. `id`: the column with its id.
    pub(crate) async fn readable<T>(
        &mut self,
        read: Result<T, StoreError>,
        row: &Row,
        id: usize,
    ) -> Result<Option<T>, StoreError> {
        match read {
            Err(StoreError::Corrupt(reason)) => {
                self.quarantine(row.parsed(id)?, &reason).await?;
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Takes an unfinished job out of the queue and of its conversation; others do not wait for it.
    async fn quarantine(&mut self, job: JobId, reason: &str) -> Result<(), StoreError> {
        tracing::error!(%job, reason, "stored job cannot be read; it is set aside");
        let sql = "UPDATE jobs SET status = 'unreadable', place = 'out', lease_node = NULL WHERE id = $1 \
                   RETURNING user_id, CASE WHEN NOT is_background THEN conversation END";
        let found = self.session.one(sql, &[&job.to_string()]).await?;
        self.effects.unfinished = self.effects.unfinished.saturating_sub(1);
        let conversation: Option<String> = found.column(1)?;
        if let Some(Ok(conversation)) = conversation.map(ConversationId::try_from) {
            // The next one may be unreadable as well.
            Box::pin(self.admit_first(found.user(0)?, &conversation)).await?;
        }
        Box::pin(self.release_dependents(job, false)).await?;
        self.fail_lost_line(job).await
    }
}
