//! One transaction of the database: a group of writes, and copies of everything in memory that it changes. A
//! transaction that fails changes nothing.

use crate::domain::event::{Event, Record};
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::log_chain::{ChainLink, RecordPlace};
use crate::domain::usage::Usage;
use crate::ports::{Fence, Lease, LeaseError, StoreError};
use crate::store::limits::StoreLimits;
use crate::store::postgres::node::HELD;
use crate::store::postgres::session::{Columns, Params, SqlSession, document, sql_number, sql_user};
use crate::store::postgres::shared::PostgresShared;
use crate::store::postgres::writer::commit_marks::CommitMark;
use crate::store::postgres::writer::effects::CommitEffects;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::lease::{LeasedJob, LogTail, PlacedRecord};
use crate::store::rows::transfer::jobs::result_handle;
use std::collections::{BTreeMap, HashMap};

/// An open transaction.
pub(crate) struct Act<'t> {
    pub(crate) session: SqlSession<'t>,
    pub(crate) shared: &'t PostgresShared,
    pub(crate) limits: StoreLimits,
    /// The number of this node when the transaction began.
    pub(crate) node: i64,
    /// The time of the transaction, unix milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) effects: CommitEffects,
    /// Changed leases; `None` has ended.
    changed: HashMap<JobId, Option<LeasedJob>>,
    /// Records that the flush inserts.
    records: Vec<NewRecord>,
    /// Rows that the flush updates.
    rows: BTreeMap<String, JobRow>,
    /// Jobs that are not inserted yet: see [`Act::insert_jobs`].
    pub(crate) new_jobs: Vec<NewJobRow>,
    /// Rows of jobs that have ended, with their outputs, as JSON: see [`Act::write_ended`].
    pub(crate) ended: Vec<(JobRow, Option<String>)>,
    /// Rows that were read and locked ahead of the acts that end their leases.
    pub(crate) confirmed: HashMap<JobId, ConfirmedLease>,
    /// Changes of the bytes that users keep.
    bytes: BTreeMap<UserId, i64>,
    /// Usage to add by user, slot and model: [`crate::store::postgres::accounts`].
    pub(crate) usage: BTreeMap<UsageSlot, (Usage, u64)>,
    /// Ended lines of batches that are not counted yet, with whether they have an answer.
    pub(crate) ended_lines: BTreeMap<BatchId, Vec<(u32, bool)>>,
    /// When the next delayed job is due, if a claim has looked.
    pub(crate) next_due_ms: Option<u64>,
    /// Whether a claim has looked at the queue.
    pub(crate) has_looked: bool,
}

/// A job that is not inserted yet, with its documents as JSON.
pub(crate) struct NewJobRow {
    pub(crate) row: JobRow,
    pub(crate) place: QueuePlace,
    pub(crate) row_text: String,
    pub(crate) spec_text: String,
    /// The link of the first event, if the log is chained.
    pub(crate) link: Option<ChainLink>,
    pub(crate) is_completion: bool,
}

/// A record as it is inserted.
struct NewRecord {
    job: JobId,
    place: RecordPlace,
    body: String,
    handle: Option<String>,
    link: Option<ChainLink>,
}

impl NewRecord {
    /// Links the record to the one before.
    fn new(job: JobId, tail: &mut LogTail, placed: &PlacedRecord) -> Result<Self, StoreError> {
        let (place, body) = (placed.place, document(&placed.record)?);
        tail.link = tail.link.map(|link| link.after(place, body.as_bytes()));
        let handle = result_handle(&placed.record).map(str::to_owned);
        Ok(Self { job, place, body, handle, link: tail.link })
    }
}

/// What others may have changed of a job that this node leases.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfirmedLease {
    pub(crate) epoch: u64,
    pub(crate) is_cancelled: bool,
    pub(crate) accept: u64,
    pub(crate) has_dependents: bool,
}

/// Where usage is added: a user's day, or hour, and a model. Ordered, so that transactions lock rows in the
/// same order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UsageSlot {
    pub(crate) user: UserId,
    pub(crate) is_hour: bool,
    /// Days, or hours, since 1970.
    pub(crate) at: u32,
    pub(crate) model: String,
}

/// Result of a group of writes, before its commit.
pub(crate) struct CommitOutcome {
    pub(crate) changed: HashMap<JobId, Option<LeasedJob>>,
    /// The number of this node under which they were changed.
    pub(crate) node: i64,
    pub(crate) effects: CommitEffects,
    /// Leases for the waiting claims.
    pub(crate) leases: Vec<Lease>,
    /// When the next delayed job is due, if a claim has looked.
    pub(crate) next_due_ms: Option<u64>,
    /// Whether a claim has looked at the queue.
    pub(crate) has_looked: bool,
    /// Whether the transaction has written anything.
    pub(crate) has_written: bool,
    /// Hints about ready jobs that its effects have given.
    pub(crate) own_hints: u64,
}

impl<'t> Act<'t> {
    pub(crate) fn new(session: SqlSession<'t>, shared: &'t PostgresShared) -> Self {
        Self {
            session,
            shared,
            limits: shared.limits,
            node: shared.node.id(),
            now_ms: shared.now_ms(),
            effects: CommitEffects::default(),
            changed: HashMap::new(),
            records: Vec::new(),
            rows: BTreeMap::new(),
            new_jobs: Vec::new(),
            ended: Vec::new(),
            confirmed: HashMap::new(),
            bytes: BTreeMap::new(),
            usage: BTreeMap::new(),
            ended_lines: BTreeMap::new(),
            next_due_ms: None,
            has_looked: false,
        }
    }

    /// Takes the lease of a valid fence. The caller returns it with [`Act::keep`] or ends it with
    /// [`Act::drop_lease`].
    pub(crate) fn lease(&mut self, fence: Fence) -> Result<LeasedJob, LeaseError> {
        self.check_fence(fence)?;
        let changed = self.changed.remove(&fence.job).flatten();
        let leased = changed.or_else(|| self.shared.leases().get(&fence.job).cloned());
        leased.ok_or(LeaseError::Fenced { job: fence.job })
    }

    /// Refuses a fence whose lease is lost.
    pub(crate) fn check_fence(&self, fence: Fence) -> Result<(), LeaseError> {
        let epoch = match self.changed.get(&fence.job) {
            Some(changed) => changed.as_ref().map(|leased| leased.row.job.epoch),
            None => self.shared.leases().get(&fence.job).map(|leased| leased.row.job.epoch),
        };
        if epoch == Some(fence.epoch) { Ok(()) } else { Err(LeaseError::Fenced { job: fence.job }) }
    }

    /// Returns a changed lease; its readers are woken after the commit.
    pub(crate) fn keep(&mut self, leased: LeasedJob) {
        self.announce_event(leased.row.id(), leased.tail.seq);
        self.changed.insert(leased.row.id(), Some(leased));
    }

    /// Ends the lease.
    pub(crate) fn drop_lease(&mut self, job: JobId) {
        self.rows.remove(&job.to_string());
        self.changed.insert(job, None);
    }

    /// Records that the job has events up to `seq`.
    pub(crate) fn announce_event(&mut self, job: JobId, seq: u64) {
        self.effects.announcement.jobs.insert(job, seq);
    }

    /// Records a change of a batch that its readers wait for.
    pub(crate) fn announce_batch(&mut self, batch: BatchId, change: u64) {
        self.effects.announcement.batches.insert(batch, change);
    }

    /// Numbers an event, which the flush inserts.
    pub(crate) fn append_event(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        event: Event,
    ) -> Result<(), StoreError> {
        self.append(job, tail, &event.into())
    }

    /// Numbers and links a record, which the flush inserts.
    pub(crate) fn append(
        &mut self,
        job: JobId,
        tail: &mut LogTail,
        record: &Record,
    ) -> Result<(), StoreError> {
        let mut placed = Vec::new();
        tail.place(record, &mut placed);
        for placed in &placed {
            self.records.push(NewRecord::new(job, tail, placed)?);
        }
        Ok(())
    }

    /// Writes the delta that waits in the tail, if any.
    pub(crate) fn flush_tail(&mut self, job: JobId, tail: &mut LogTail) -> Result<(), StoreError> {
        if let Some(delta) = tail.take_delta() {
            self.records.push(NewRecord::new(job, tail, &PlacedRecord::event(delta))?);
        }
        Ok(())
    }

    /// The flush updates the row of a leased job.
    pub(crate) fn put_leased_row(&mut self, row: &JobRow) {
        self.rows.insert(row.id().to_string(), row.clone());
    }

    /// Adds to, or with a negative change takes from, the bytes that a user keeps.
    pub(crate) fn count_bytes(&mut self, user: UserId, change: i64) {
        if self.limits.has_quotas && change != 0 {
            let sum = self.bytes.entry(user).or_default();
            *sum = sum.saturating_add(change);
        }
    }

    /// What this transaction adds to the bytes that a user keeps, as far as it is known.
    pub(crate) fn pending_bytes(&self, user: UserId) -> i64 {
        self.bytes.get(&user).copied().unwrap_or_default()
    }

    /// Writes the rows of jobs that wait for it. A read of rows that others of the same transaction may have
    /// changed comes after it.
    pub(crate) async fn write_pending(&mut self) -> Result<(), StoreError> {
        self.insert_jobs().await?;
        self.write_ended().await
    }

    /// Writes what is collected. Reads of the same transaction that need it call this first.
    pub(crate) async fn flush(&mut self) -> Result<(), StoreError> {
        self.insert_jobs().await?;
        self.insert_records().await?;
        self.update_rows().await?;
        self.write_ended().await?;
        self.add_usage().await
    }

    /// Writes everything, checks that this node has its lease, and announces the changes. The commit follows.
    pub(crate) async fn finish(
        &mut self,
        leases: Vec<Lease>,
        mark: &CommitMark<'_>,
    ) -> Result<CommitOutcome, StoreError> {
        let mut changed = std::mem::take(&mut self.changed);
        for (job, leased) in &mut changed {
            if let Some(leased) = leased {
                self.flush_tail(*job, &mut leased.tail)?;
            }
        }
        self.flush().await?;
        for (user, change) in std::mem::take(&mut self.bytes) {
            let sql = "INSERT INTO stored_bytes AS s VALUES ($1, greatest($2::bigint, 0)) \
                       ON CONFLICT (user_id) DO UPDATE SET bytes = greatest(s.bytes + $2::bigint, 0)";
            self.session.send(sql, &[&sql_user(user), &change]).await?;
        }
        let has_written = self.check_and_announce(!changed.is_empty(), mark).await?;
        let (node, next_due_ms, has_looked) = (self.node, self.next_due_ms, self.has_looked);
        let effects = std::mem::take(&mut self.effects);
        Ok(CommitOutcome {
            changed,
            node,
            effects,
            leases,
            next_due_ms,
            has_looked,
            has_written,
            own_hints: 0,
        })
    }

    /// The last statement before the commit: one round trip. Marks the transaction, if it has written
    /// anything. Returns whether it has.
    async fn check_and_announce(
        &self,
        is_under_lease: bool,
        mark: &CommitMark<'_>,
    ) -> Result<bool, StoreError> {
        let node = &self.shared.node;
        let payload = self.effects.announcement.encode(self.node, self.shared.now_ms());
        // If the lease is lost, the transaction is not committed, and nothing is announced.
        let sql = format!(
            "WITH held AS ({HELD}), marked AS (UPDATE commit_marks SET number = $6 WHERE node = $1 AND lane = $5 \
               AND pg_current_xact_id_if_assigned() IS NOT NULL RETURNING node) \
             SELECT pg_current_xact_id_if_assigned() IS NOT NULL, EXISTS (SELECT FROM marked), \
             NOT $2 OR EXISTS (SELECT FROM held), CASE WHEN $4::text IS NOT NULL THEN pg_notify($3, $4)::text END"
        );
        let params: Params<'_> =
            &[&self.node, &is_under_lease, &self.shared.channel, &payload, &mark.lane, &mark.number];
        let found = self.session.one(&sql, params).await?;
        let (has_written, is_marked): (bool, bool) = (found.column(0)?, found.column(1)?);
        node.noted(self.node, found.column(2)?)?;
        if has_written && !is_marked {
            // This node is gone for the others. It comes back under another number.
            return Err(StoreError::Unreachable);
        }
        Ok(has_written)
    }

    async fn insert_records(&mut self) -> Result<(), StoreError> {
        if self.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        let mut columns = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for NewRecord { job, place, body, handle, link } in records {
            columns.0.push(job.to_string());
            columns.1.push(sql_number(place.seq));
            columns.2.push(i32::try_from(place.sub).unwrap_or(i32::MAX));
            columns.3.push(body);
            columns.4.push(handle);
            columns.5.push(link.map(|link| link.to_bytes().to_vec()));
        }
        // Owners are of interest only where their bytes are counted.
        let sql = "WITH new AS (INSERT INTO records (job, seq, sub, body, handle, link) SELECT j, s, b, t::json, h, l \
                     FROM unnest($1::text[], $2::bigint[], $3::integer[], $4::text[], $5::text[], $7::bytea[]) \
                     AS r(j, s, b, t, h, l) \
                     RETURNING job, octet_length(body::text) AS bytes) \
                   SELECT user_id, sum(bytes)::bigint FROM new JOIN jobs ON jobs.id = new.job WHERE $6 GROUP BY user_id";
        let counts = self.limits.has_quotas;
        let (jobs, seqs, subs, bodies, handles, links) = &columns;
        let params: Params<'_> = &[jobs, seqs, subs, bodies, handles, &counts, links];
        if !counts {
            return self.session.send(sql, params).await;
        }
        for row in self.session.rows(sql, params).await? {
            self.count_bytes(row.user(0)?, row.column(1)?);
        }
        Ok(())
    }

    async fn update_rows(&mut self) -> Result<(), StoreError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let ids: Vec<&String> = rows.keys().collect();
        let documents: Vec<String> = rows.values().map(document).collect::<Result<_, _>>()?;
        let sql = "UPDATE jobs SET row = u.row::json FROM unnest($1::text[], $2::text[]) AS u(id, row) \
                   WHERE jobs.id = u.id";
        self.session.send(sql, &[&ids, &documents]).await
    }
}
