//! Stores the lines of a batch piece by piece, then accepts the batch in one transaction. The lines of a
//! batch that is never accepted are removed; none of them ever runs.

use crate::domain::batch::{Batch, BatchCounts, BatchStatus};
use crate::domain::id::{BatchId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::message::Message;
use crate::domain::webhook::WebhookSubject;
use crate::ports::{BatchError, Idempotent, NewBatch, NewLine, NewWork, StoreError};
use crate::store::postgres::batches::row;
use crate::store::postgres::session::{Columns, document, sql_number, sql_user};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::{BatchRow, accepted, job_id};
use crate::store::rows::idempotency::KeyUse;

impl Act<'_> {
    /// Stores lines of a batch, from this number on. They are this node's until the batch is accepted.
    pub(crate) async fn add_batch_lines(
        &mut self,
        (user, batch): (UserId, BatchId),
        first: u32,
        lines: &[NewLine],
    ) -> Result<(), StoreError> {
        self.refuse_low_disk()?;
        let mut columns = (Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            columns.0.push(document(&line.custom_id)?);
            columns.1.push(document(&line.spec)?);
            columns.2.push(Message::have_images(&line.spec.input));
        }
        // A lost node must not store more lines of batches that others have abandoned.
        self.shared.node.check(&self.session, self.node).await?;
        let sql = "WITH unaccepted AS (INSERT INTO unaccepted_batches AS u (batch, user_id, node, lines) \
                     VALUES ($1, $2, $3, $4) ON CONFLICT (batch) DO UPDATE SET node = excluded.node, \
                     lines = u.lines + excluded.lines) \
                   INSERT INTO batch_lines (batch, line, bytes, custom_id, spec, has_images) \
                   SELECT $1, ($5::bigint + n.nth - 1)::integer, octet_length(n.custom_id) + octet_length(n.spec), \
                     n.custom_id::json, n.spec::json, n.has_images \
                   FROM unnest($6::text[], $7::text[], $8::boolean[]) WITH ORDINALITY \
                     AS n(custom_id, spec, has_images, nth) \
                   ON CONFLICT (batch, line) DO UPDATE SET bytes = excluded.bytes, \
                     custom_id = excluded.custom_id, spec = excluded.spec, has_images = excluded.has_images";
        let (id, owner) = (batch.to_string(), sql_user(user));
        let (count, from) = (sql_number(lines.len()), sql_number(first));
        self.session
            .send(sql, &[&id, &owner, &self.node, &count, &from, &columns.0, &columns.1, &columns.2])
            .await?;
        let bytes = columns.0.iter().chain(&columns.1).map(String::len).sum::<usize>();
        self.count_bytes(user, sql_number(bytes));
        for (line, new) in (first..).zip(lines) {
            if Message::have_images(&new.spec.input) {
                // The line becomes this job, which then has them.
                self.keep_images(user, job_id(batch, line).into(), &new.spec.input).await?;
            }
        }
        Ok(())
    }

    /// Accepts a batch, unless its idempotency key is known.
    pub(crate) async fn accept_batch(
        &mut self,
        batch: &NewBatch,
        key: Option<&IdempotencyKey>,
    ) -> Result<Idempotent<Batch>, BatchError> {
        let NewBatch { id, user, .. } = *batch;
        if let Some(key) = key {
            match self.key_use(user, key).await? {
                KeyUse::Same(WebhookSubject::Batch(before)) => {
                    let before = row::find(&self.session, before).await?.ok_or(BatchError::KeySpent)?;
                    self.abandon(id).await?;
                    return Ok(Idempotent::Replayed(before.batch));
                }
                KeyUse::Same(WebhookSubject::Job(_)) | KeyUse::Other => return Err(BatchError::KeyReused),
                KeyUse::Never => {}
            }
        }
        let is_refused = batch.source.as_ref().is_some_and(|source| !source.faults.is_empty());
        if !is_refused && !self.has_all_lines(batch).await? {
            return Err(BatchError::Abandoned);
        }
        let jobs = u64::from(batch.lines);
        self.check_queue_limit(jobs, |limit| BatchError::QueueFull { limit }).await?;
        // The lines are stored already.
        self.admit_work::<BatchError>(user, NewWork { jobs, bytes: 0 }).await?;
        if let Some(key) = key {
            self.remember(user, key, WebhookSubject::Batch(id)).await?;
        }
        let started = if is_refused { self.refuse_batch(batch).await } else { self.start_batch(batch).await };
        Ok(Idempotent::New(started?))
    }

    /// Whether the lines of an unaccepted batch are stored; it stays so until the end of the transaction.
    async fn has_all_lines(&mut self, new: &NewBatch) -> Result<bool, StoreError> {
        let sql = "SELECT lines FROM unaccepted_batches WHERE batch = $1 FOR UPDATE";
        let found = self.session.row(sql, &[&new.id.to_string()]).await?;
        let stored = found.map(|row| row.number(0)).transpose()?;
        Ok(stored.is_some_and(|stored| stored >= u64::from(new.lines)))
    }

    /// Stores a batch whose file was refused.
    async fn refuse_batch(&mut self, new: &NewBatch) -> Result<Batch, StoreError> {
        self.abandon(new.id).await?;
        let batch = Batch {
            status: BatchStatus::Failed,
            finished_at_ms: Some(self.now_ms),
            counts: BatchCounts::default(),
            ..accepted(new)
        };
        if let Some(url) = &new.webhook_url {
            self.report(new.user, WebhookSubject::Batch(new.id), url).await?;
        }
        let row = BatchRow { batch, next_line: 0, active: 0, ended: 0, retried: 0 };
        self.put_batch(&row).await?;
        Ok(row.batch)
    }

    async fn start_batch(&mut self, new: &NewBatch) -> Result<Batch, StoreError> {
        let sql = "DELETE FROM unaccepted_batches WHERE batch = $1";
        self.session.send(sql, &[&new.id.to_string()]).await?;
        // Lines count as unfinished jobs from here on; each hands its share over to its job.
        self.effects.unfinished = self.effects.unfinished.saturating_add(i64::from(new.lines));
        let mut row = BatchRow { batch: accepted(new), next_line: 0, active: 0, ended: 0, retried: 0 };
        let mut quotas = self.line_quotas([new.user]).await?;
        self.start_lines(&mut row, quotas.entry(new.user).or_default()).await?;
        self.put_batch(&row).await?;
        Ok(row.batch)
    }
}
