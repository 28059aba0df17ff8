//! Turns lines of a batch into jobs while the batch has room, and counts their ends. The complete batch is
//! never in memory.

use crate::domain::batch::BatchStatus;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::job::{BatchLine, Job, JobSpec, JobStatus};
use crate::domain::webhook::WebhookSubject;
use crate::ports::{NewJob, NewWork, QuotaRefusal, StoreError, WorkQuota};
use crate::store::postgres::batches::row::line_number;
use crate::store::postgres::batches::waiting::set_waiting;
use crate::store::postgres::session::{Columns, read_document, sql_number};
use crate::store::postgres::writer::act::Act;
use crate::store::rows::batch::{BatchRow, job_id};
use std::collections::BTreeMap;

/// Maximum lines of a batch that start in one transaction, and their bytes; the last one may exceed these.
const BEGIN_LINES: u64 = 64;
const BEGIN_BYTES: u64 = 4 * 1024 * 1024;

/// The next lines of a batch up to a number of bytes. Numbers without a row have no request either.
const NEXT_LINES: &str = "SELECT line, bytes, spec::text FROM (\
    SELECT n AS line, coalesce(l.bytes, 0) AS bytes, l.spec, \
      sum(coalesce(l.bytes, 0)) OVER (ORDER BY n) - coalesce(l.bytes, 0) AS before \
    FROM generate_series($2::bigint::integer, $3::bigint::integer) AS n \
    LEFT JOIN batch_lines AS l ON l.batch = $1 AND l.line = n) AS weighed \
    WHERE before < $4::bigint ORDER BY line";

/// Numbers ended lines in the order of their ends, unless they have a number. A line without a row gets one,
/// or readers would miss it. Returns how many had an active job, and how many are new in the order.
const CLOSE_LINES: &str = "WITH old AS (\
      SELECT e.line, e.nth, coalesce(l.is_active, false) AS is_active, l.ended \
      FROM unnest($2::integer[]) WITH ORDINALITY AS e(line, nth) \
      LEFT JOIN batch_lines AS l ON l.batch = $1 AND l.line = e.line), \
    closed AS (INSERT INTO batch_lines (batch, line, bytes, custom_id, ended) \
      SELECT $1, line, 0, '\"\"'::json, coalesce(ended, \
        ($3::bigint + count(*) FILTER (WHERE ended IS NULL) OVER (ORDER BY nth))::integer) FROM old \
      ON CONFLICT (batch, line) DO UPDATE SET is_active = false, ended = excluded.ended) \
    SELECT count(*) FILTER (WHERE is_active), count(*) FILTER (WHERE ended IS NULL) FROM old";

/// A stored line that may start.
struct NextLine {
    line: u32,
    bytes: u64,
    spec: Option<String>,
}

impl Act<'_> {
    /// A job has ended: if it is a line of a batch, the batch counts it and goes on before the transaction
    /// ends: see [`Act::settle_line_ends`].
    pub(crate) fn end_line(&mut self, job: &Job) {
        if let Some(BatchLine { batch, line }) = job.batch {
            self.note_end(batch, line, job.status == JobStatus::Succeeded);
        }
    }

    /// A job cannot be read any more: if it is a line of a batch, the line has failed.
    pub(crate) async fn fail_lost_line(&mut self, job: JobId) -> Result<(), StoreError> {
        let sql = "SELECT l.batch, l.line FROM jobs JOIN batch_lines AS l ON l.batch = jobs.batch AND l.line = jobs.line \
                   WHERE jobs.id = $1 AND l.is_active";
        if let Some(found) = self.session.row(sql, &[&job.to_string()]).await? {
            self.note_end(found.parsed(0)?, line_number(&found, 1)?, false);
        }
        Ok(())
    }

    fn note_end(&mut self, batch: BatchId, line: u32, has_answer: bool) {
        let ends = self.ended_lines.entry(batch).or_default();
        ends.retain(|(ended, _)| *ended != line);
        ends.push((line, has_answer));
    }

    /// Counts the ends of lines, and starts further lines of their batches.
    pub(crate) async fn settle_line_ends(&mut self) -> Result<(), StoreError> {
        let mut ended = std::mem::take(&mut self.ended_lines);
        if ended.is_empty() {
            return Ok(());
        }
        // All nodes lock batches in this order, and the quotas of their users behind them.
        let ids: Vec<String> = ended.keys().map(ToString::to_string).collect();
        let sql = "SELECT id, row::text FROM batches WHERE id = ANY($1) ORDER BY id FOR UPDATE";
        let mut rows = Vec::new();
        for found in self.session.rows(sql, &[&ids]).await? {
            // A removed batch has no row: nothing to count.
            let batch: BatchId = found.parsed(0)?;
            match found.document::<BatchRow>(1) {
                Ok(row) => rows.push(row),
                Err(reason) => tracing::error!(%batch, %reason, "ends of batch lines not counted"),
            }
        }
        let users: Vec<UserId> = rows.iter().filter(|row| may_start(row)).map(|row| row.batch.user).collect();
        let mut quotas = self.line_quotas(users).await?;
        for mut row in rows {
            let (batch, ends) = (row.batch.id, ended.remove(&row.batch.id).unwrap_or_default());
            let quota = quotas.entry(row.batch.user).or_default();
            match self.count_ends(&mut row, &ends, quota).await {
                // The jobs have ended all the same, and lines that have started stay so.
                Err(StoreError::Corrupt(reason)) if self.session.fault().is_none() => {
                    tracing::error!(%batch, reason, "batch does not continue");
                    self.put_batch(&row).await?;
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    async fn count_ends(
        &mut self,
        row: &mut BatchRow,
        ends: &[(u32, bool)],
        quota: &mut WorkQuota,
    ) -> Result<(), StoreError> {
        self.close_lines(row, ends).await?;
        self.start_lines(row, quota).await?;
        self.put_batch(row).await
    }

    /// Turns lines into jobs while the batch and its owner's quota have room. A transaction starts a bounded
    /// number, and more start when one of them ends: moving hundreds of megabytes at once would delay all
    /// other writes. The quota is that of [`Act::line_quotas`]. The caller writes the row.
    pub(crate) async fn start_lines(
        &mut self,
        row: &mut BatchRow,
        quota: &mut WorkQuota,
    ) -> Result<(), StoreError> {
        let refusal = self.fill_room(row, quota).await?;
        set_waiting(row, refusal);
        self.settle_batch(row).await
    }

    /// Starts lines. Returns why no further line may start, if a quota is used up.
    async fn fill_room(
        &mut self,
        row: &mut BatchRow,
        quota: &mut WorkQuota,
    ) -> Result<Option<QuotaRefusal>, StoreError> {
        let (mut lines, mut bytes) = (0_u64, 0_u64);
        while row.has_room() && ((lines < BEGIN_LINES && bytes < BEGIN_BYTES) || row.active == 0) {
            if let Err(refusal) = quota.admit(NewWork::job(0), self.now_ms) {
                return Ok(Some(refusal));
            }
            let next = self.next_lines(row, quota, BEGIN_BYTES.saturating_sub(bytes).max(1)).await?;
            if next.is_empty() {
                break;
            }
            lines = lines.saturating_add(sum(next.iter().map(|_| 1)));
            bytes = bytes.saturating_add(sum(next.iter().map(|line| line.bytes)));
            let before = row.active;
            self.start_next(row, next).await?;
            (before..row.active).for_each(|_| quota.add(NewWork::job(0)));
        }
        Ok(None)
    }

    /// The next lines that batch and quota have room for.
    async fn next_lines(
        &mut self,
        row: &BatchRow,
        quota: &WorkQuota,
        bytes: u64,
    ) -> Result<Vec<NextLine>, StoreError> {
        let of_batch = row.batch.concurrency.saturating_sub(row.active).min(row.unstarted());
        let of_quota = quota.quota.unfinished_jobs.map(|limit| limit.saturating_sub(quota.unfinished_jobs));
        let count = u64::from(of_batch).min(of_quota.unwrap_or(u64::MAX)).min(BEGIN_LINES);
        let last = u64::from(row.next_line).saturating_add(count.saturating_sub(1));
        let params =
            (row.batch.id.to_string(), sql_number(row.next_line), sql_number(last), sql_number(bytes));
        let found = self.session.rows(NEXT_LINES, &[&params.0, &params.1, &params.2, &params.3]).await?;
        let line = |row: &tokio_postgres::Row| {
            let bytes = u64::try_from(row.column::<i32>(1)?).unwrap_or_default();
            Ok(NextLine { line: line_number(row, 0)?, bytes, spec: row.column(2)? })
        };
        found.iter().map(line).collect()
    }

    /// Turns these lines into jobs; those that cannot be read, or may not make a conversation, have failed.
    async fn start_next(&mut self, row: &mut BatchRow, next: Vec<NextLine>) -> Result<(), StoreError> {
        let (mut started, mut failed) = (BTreeMap::new(), Vec::new());
        for NextLine { line, spec, .. } in next {
            row.next_line = line.saturating_add(1);
            self.effects.unfinished = self.effects.unfinished.saturating_sub(1);
            let unfinished = self.effects.unfinished;
            match self.start_line(row, line, spec.as_deref()).await {
                Ok(true) => {
                    row.active = row.active.saturating_add(1);
                    started.insert(line, spec.as_deref().map_or(0, str::len));
                }
                Ok(false) => {
                    let (batch, limit) = (row.batch.id, self.limits.conversations);
                    tracing::warn!(%batch, line, limit, "batch line names a new conversation; it counts as failed");
                    failed.push((line, false));
                }
                Err(StoreError::Corrupt(reason)) => {
                    let batch = row.batch.id;
                    tracing::error!(%batch, line, reason, "batch line cannot be read; it counts as failed");
                    self.effects.unfinished = unfinished;
                    self.undo_start(batch, line).await?;
                    failed.push((line, false));
                }
                Err(error) => return Err(error),
            }
        }
        self.put_started(row, &started).await?;
        self.close_lines(row, &failed).await
    }

    /// Turns a line into a job. Returns whether it did; false: the user has too many conversations.
    async fn start_line(
        &mut self,
        row: &BatchRow,
        line: u32,
        spec: Option<&str>,
    ) -> Result<bool, StoreError> {
        let spec = spec.ok_or_else(|| StoreError::Corrupt("a line that is a job already".to_owned()))?;
        let spec: JobSpec = read_document(spec)?;
        let (id, user, created_at_ms) = (job_id(row.batch.id, line), row.batch.user, row.batch.created_at_ms);
        let new = [NewJob { id, user, created_at_ms, spec, in_existing: false }];
        let [NewJob { spec, .. }] = &new;
        if spec.conversation_id.is_some() && !self.has_room_for_conversations(&new).await? {
            return Ok(false);
        }
        let mut job = Job::queued(id, user, created_at_ms, spec);
        job.batch = Some(BatchLine { batch: row.batch.id, line });
        self.accept_job(job, spec).await?;
        Ok(true)
    }

    /// Removes what is stored of the job of a line that could not start.
    async fn undo_start(&mut self, batch: BatchId, line: u32) -> Result<(), StoreError> {
        self.insert_jobs().await?;
        let sql = "WITH gone AS (DELETE FROM jobs WHERE id = $1 RETURNING id) \
                   DELETE FROM records WHERE job = (SELECT id FROM gone)";
        self.session.send(sql, &[&job_id(batch, line).to_string()]).await
    }

    /// Records the jobs of started lines, whose requests are now theirs. The lines come with the bytes of
    /// their requests.
    async fn put_started(
        &mut self,
        row: &BatchRow,
        started: &BTreeMap<u32, usize>,
    ) -> Result<(), StoreError> {
        if started.is_empty() {
            return Ok(());
        }
        let batch = row.batch.id;
        let lines: Vec<i32> = started.keys().map(|line| sql_line(*line)).collect();
        let jobs: Vec<String> = started.keys().map(|line| job_id(batch, *line).to_string()).collect();
        let sql = "UPDATE batch_lines AS l SET job = s.job, is_active = true, spec = NULL, \
                     bytes = octet_length(l.custom_id::text) \
                   FROM unnest($2::integer[], $3::text[]) AS s(line, job) WHERE l.batch = $1 AND l.line = s.line";
        self.session.send(sql, &[&batch.to_string(), &lines, &jobs]).await?;
        let bytes = sql_number(started.values().sum::<usize>());
        self.count_bytes(row.batch.user, bytes.saturating_neg());
        Ok(())
    }

    /// Counts ended lines, given with whether they have an answer, and gives them their numbers in the order
    /// of ends. The caller writes the row.
    async fn close_lines(&mut self, row: &mut BatchRow, ends: &[(u32, bool)]) -> Result<(), StoreError> {
        if ends.is_empty() {
            return Ok(());
        }
        let lines: Vec<i32> = ends.iter().map(|(line, _)| sql_line(*line)).collect();
        let params = (row.batch.id.to_string(), sql_number(row.ended));
        let found = self.session.one(CLOSE_LINES, &[&params.0, &lines, &params.1]).await?;
        let number = |index| found.number(index).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        row.active = row.active.saturating_sub(number(0)?);
        row.ended = row.ended.saturating_add(number(1)?);
        for (_, has_answer) in ends {
            let counts = &mut row.batch.counts;
            let count = if *has_answer { &mut counts.completed } else { &mut counts.failed };
            *count = count.saturating_add(1);
        }
        Ok(())
    }

    /// Ends a batch whose lines have all ended. Queues its webhook, if one was requested.
    pub(crate) async fn settle_batch(&mut self, row: &mut BatchRow) -> Result<(), StoreError> {
        // One from a file is reported when the files with its results are written.
        let has_ended = row.settle(self.now_ms) && row.batch.source.is_none();
        match row.batch.webhook_url.clone().filter(|_| has_ended) {
            Some(url) => self.report(row.batch.user, WebhookSubject::Batch(row.batch.id), &url).await,
            None => Ok(()),
        }
    }

    /// A failed job was retried. If it is a line of a batch, the batch no longer counts it as failed, and
    /// continues if it had ended.
    pub(crate) async fn reopen_line(&mut self, job: &Job) -> Result<(), StoreError> {
        let Some(BatchLine { batch, line }) = job.batch else { return Ok(()) };
        let Some(mut row) = self.lock_batch(batch).await? else { return Ok(()) };
        row.reopen();
        let sql = "UPDATE batch_lines SET is_active = true WHERE batch = $1 AND line = $2";
        self.session.send(sql, &[&batch.to_string(), &sql_line(line)]).await?;
        self.put_batch(&row).await
    }
}

/// Whether further lines of the batch may start once some have ended.
fn may_start(row: &BatchRow) -> bool {
    row.batch.status == BatchStatus::InProgress && row.unstarted() > 0
}

fn sql_line(line: u32) -> i32 {
    i32::try_from(line).unwrap_or(i32::MAX)
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
