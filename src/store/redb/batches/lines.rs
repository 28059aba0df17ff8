//! Turns lines of a batch into jobs while the batch has room, and counts their ends. The complete batch is
//! never in memory.

use crate::domain::batch::{Batch, BatchStatus};
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::job::{BatchLine, Job, JobStatus};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{NewWork, StoreError, WorkQuota};
use crate::store::redb::codec::keys::batches::{BatchLineKey, OwnedBatchKey};
use crate::store::redb::codec::row_bytes::RowOwner;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::batch::{BatchLineRow, BatchRow, job_id};
use crate::store::rows::weight::spec_bytes;

/// Maximum weight of lines that start in one transaction, bytes; the last one may exceed it.
const BEGIN_BYTES: usize = 4 * 1024 * 1024;

impl Transaction<'_> {
    /// Cancels a batch of a user.
    pub(crate) fn cancel_batch(&mut self, user: UserId, batch: BatchId) -> Result<Option<Batch>, StoreError> {
        let found = self.find_batch(batch)?;
        let Some(row) = found.filter(|row| row.batch.user == user) else { return Ok(None) };
        if row.batch.status != BatchStatus::InProgress {
            return Ok(Some(row.batch));
        }
        self.stop_batch(row, BatchStatus::Cancelling)?;
        Ok(self.find_batch(batch)?.map(|row| row.batch))
    }

    /// Turns lines into jobs while the batch and its owner's quota have room. A transaction starts a bounded
    /// number, and more start when one of them ends: moving hundreds of megabytes at once would delay all
    /// other writes. The caller writes the row.
    pub(crate) fn start_lines(&mut self, row: &mut BatchRow) -> Result<(), StoreError> {
        let mut bytes = 0_usize;
        let mut quota = if row.has_room() { self.line_quota(row.batch.user)? } else { WorkQuota::default() };
        let mut refusal = None;
        while row.has_room() && (bytes < BEGIN_BYTES || row.active == 0) {
            refusal = quota.admit(NewWork::job(0), self.now_ms).err();
            if refusal.is_some() {
                break;
            }
            let key = BatchLineKey { batch: row.batch.id, line: row.next_line };
            row.next_line = row.next_line.saturating_add(1);
            self.counters.unfinished = self.counters.unfinished.saturating_sub(1);
            match self.start_line(row, key) {
                Ok(Some(weight)) => {
                    bytes = bytes.saturating_add(weight);
                    row.active = row.active.saturating_add(1);
                    quota.add(NewWork::job(0));
                }
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(batch = %key.batch, line = key.line, reason, "batch line cannot be read; it counts as failed");
                    self.close_line(row, key, false)?;
                }
                Ok(None) => {
                    let limit = self.bounds.conversations;
                    tracing::warn!(batch = %key.batch, line = key.line, limit, "batch line names a new conversation; it counts as failed");
                    self.close_line(row, key, false)?;
                }
                Err(error) => return Err(error),
            }
        }
        self.set_waiting(row, refusal)?;
        self.settle_batch(row)
    }

    /// Queues the webhook of an ended batch, if one was requested.
    fn settle_batch(&mut self, row: &mut BatchRow) -> Result<(), StoreError> {
        if !row.settle(self.now_ms) {
            return Ok(());
        }
        self.forget_expiry(row)?;
        // One from a file is reported when the files with its results are written.
        match row.batch.webhook_url.clone().filter(|_| row.batch.source.is_none()) {
            Some(url) => self.report(row.batch.user, WebhookSubject::Batch(row.batch.id), &url),
            None => Ok(()),
        }
    }

    /// Turns a line into a job. Returns its weight; `None`: the user has too many conversations.
    fn start_line(&mut self, row: &BatchRow, key: BatchLineKey) -> Result<Option<usize>, StoreError> {
        let mut line = self.line_row(key)?;
        let spec = line.spec.take();
        let spec = spec.ok_or_else(|| StoreError::Corrupt("a line that is a job already".to_owned()))?;
        if !self.has_room_for_conversations([(row.batch.user, &spec)])? {
            return Ok(None);
        }
        let id = job_id(key.batch, key.line);
        let mut job = Job::queued(id, row.batch.user, row.batch.created_at_ms, &spec);
        job.batch = Some(BatchLine { batch: key.batch, line: key.line });
        self.accept_job(job, &spec)?;
        line.job = Some(id);
        self.tables.batch_active.insert(&key.encode(), &id.to_bytes())?;
        self.put_line(key, &line)?;
        Ok(Some(spec_bytes(&spec)))
    }

    /// A job has ended: if it is a line of a batch, the batch counts it and goes on.
    pub(crate) fn end_line(&mut self, job: &Job) -> Result<(), StoreError> {
        let Some(BatchLine { batch, line }) = job.batch else { return Ok(()) };
        let has_answer = job.status == JobStatus::Succeeded;
        match self.count_line(BatchLineKey { batch, line }, has_answer) {
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(%batch, line, reason, "end of a batch line not counted");
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// A job cannot be read any more: if it is a line of a batch, the line has failed.
    pub(crate) fn fail_lost_line(&mut self, job: JobId) -> Result<(), StoreError> {
        let mut lost = None;
        for entry in self.tables.batch_active.iter()? {
            let (key, active) = entry?;
            if *active.value() == job.to_bytes() {
                lost = Some(BatchLineKey::decode(key.value()));
                break;
            }
        }
        lost.map_or(Ok(()), |key| self.count_line(key, false))
    }

    fn count_line(&mut self, key: BatchLineKey, has_answer: bool) -> Result<(), StoreError> {
        // Retention has removed the batch: nothing to count.
        let Some(mut row) = self.find_batch(key.batch)? else { return Ok(()) };
        if self.tables.batch_active.remove(&key.encode())?.is_some() {
            row.active = row.active.saturating_sub(1);
        }
        self.close_line(&mut row, key, has_answer)?;
        self.start_lines(&mut row)?;
        self.put_batch(&row)
    }

    /// Counts a line and gives it its number in the order of ends, if it has none yet.
    fn close_line(
        &mut self,
        row: &mut BatchRow,
        key: BatchLineKey,
        has_answer: bool,
    ) -> Result<(), StoreError> {
        let counts = &mut row.batch.counts;
        let count = if has_answer { &mut counts.completed } else { &mut counts.failed };
        *count = count.saturating_add(1);
        match self.line_row(key) {
            Ok(line) if line.has_ended => return Ok(()),
            Ok(line) => self.put_line(key, &BatchLineRow { has_ended: true, ..line })?,
            // List its end anyway, or readers would miss a line.
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
        row.ended = row.ended.saturating_add(1);
        self.tables.batch_ended.insert(&BatchLineKey { line: row.ended, ..key }.encode(), key.line)?;
        Ok(())
    }

    /// A failed job was retried. If it is a line of a batch, the batch no longer counts it as failed, and
    /// continues if it had ended.
    pub(crate) fn reopen_line(&mut self, job: &Job) -> Result<(), StoreError> {
        let Some(BatchLine { batch, line }) = job.batch else { return Ok(()) };
        let Some(mut row) = self.find_batch(batch)? else { return Ok(()) };
        row.reopen();
        if row.batch.source.is_some() {
            let owned = OwnedBatchKey { user: row.batch.user, batch }.encode();
            self.tables.batches_without_files.insert(&owned, ())?;
        }
        self.tables.batch_active.insert(&BatchLineKey { batch, line }.encode(), &job.id.to_bytes())?;
        self.put_batch(&row)
    }

    /// Stops an open batch, which is being cancelled or expires, with its running jobs.
    pub(crate) fn stop_batch(&mut self, mut row: BatchRow, status: BatchStatus) -> Result<(), StoreError> {
        let (batch, unstarted) = (row.batch.id, row.stop(status, self.now_ms));
        self.forget_expiry(&row)?;
        self.counters.unfinished = self.counters.unfinished.saturating_sub(u64::from(unstarted));
        self.set_waiting(&mut row, None)?;
        self.settle_batch(&mut row)?;
        self.put_batch(&row)?;
        for job in self.active_jobs(batch)? {
            // Each job that ends at once counts itself.
            match self.row(job) {
                Ok(mut job) => self.cancel_row(&mut job)?,
                // It is quarantined when it reaches the head of its queue.
                Err(StoreError::Corrupt(reason)) => {
                    tracing::error!(%job, reason, "job of a stopped batch cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn active_jobs(&self, batch: BatchId) -> Result<Vec<JobId>, StoreError> {
        let (first, last) = BatchLineKey::all_of(batch);
        let active = self
            .tables
            .batch_active
            .range::<&crate::store::redb::codec::keys::batches::BatchLineBytes>(&first..=&last)?;
        active.map(|entry| Ok(JobId::from_bytes(*entry?.1.value()))).collect()
    }

    /// The row of a batch, if there is such a batch.
    pub(crate) fn find_batch(&self, batch: BatchId) -> Result<Option<BatchRow>, StoreError> {
        self.tables.batches.row(&batch.to_bytes())
    }

    fn line_row(&self, key: BatchLineKey) -> Result<BatchLineRow, StoreError> {
        let row = self.tables.batch_lines.row(&key.encode())?;
        row.ok_or_else(|| StoreError::Corrupt("a line has no row".to_owned()))
    }

    /// Writes the row, and wakes the readers of the batch after the commit.
    pub(crate) fn put_batch(&mut self, row: &BatchRow) -> Result<(), StoreError> {
        self.mark_dirty();
        self.effects.batch_changes.insert(row.batch.id, row.new_seqs());
        let before = match self.find_batch(row.batch.id) {
            Err(StoreError::Corrupt(_)) => None,
            found => found?,
        };
        let lines = |row: &BatchRow| i64::from(row.waiting_lines());
        let change = lines(row).saturating_sub(before.as_ref().map_or(0, lines));
        self.waiting_lines.add(RowOwner::User(row.batch.user), change);
        self.tables.batches.put_row(&row.batch.id.to_bytes(), row)?;
        Ok(())
    }
}
