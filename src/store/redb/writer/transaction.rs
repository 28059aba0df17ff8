//! An open group of writes: the tables, and copies of everything in memory that the group changes. A commit
//! that fails changes nothing.

use crate::domain::fair_share::Holdings;
use crate::domain::id::{BatchId, JobId, UserId};
use crate::domain::job::{Job, JobSpec, JobStatus};
use crate::domain::log_chain::LogSigningKey;
use crate::ports::{CancelReason, CancelToken, Clock, Fence, LeaseError, StoreError};
use crate::store::commit_metrics::CommitMetrics;
use crate::store::limits::StoreLimits;
use crate::store::queue_length::QueueLength;
use crate::store::redb::codec::keys::jobs::{FairKey, JobOwnerKey};
use crate::store::redb::codec::row_bytes::{OwnerChanges, RowOwner};
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::{StoreCounters, Tables};
use crate::store::redb::jobs::row::shown;
use crate::store::redb::volatile::table::VolatileJobs;
use crate::store::rows::job::{JobRow, QueuePlace};
use crate::store::rows::lease::{ClaimedLeases, LeasedJob, Leases, LogTail};
use std::collections::HashMap;
use std::sync::Arc;

/// Inputs of a transaction.
pub(crate) struct TransactionContext<'t> {
    pub(crate) leases: &'t Leases,
    pub(crate) volatile: &'t VolatileJobs,
    pub(crate) clock: &'t Arc<dyn Clock>,
    pub(crate) log_key: Option<&'t LogSigningKey>,
    pub(crate) bounds: StoreLimits,
    /// The time of the transaction, unix milliseconds.
    pub(crate) now_ms: u64,
    /// For how long this time is distrusted, milliseconds; 0: it is trusted.
    pub(crate) distrust_ms: u64,
    /// Claims that the transaction serves at its end.
    pub(crate) claims: usize,
}

/// The readable parts of a lease.
pub(crate) type ClaimableJob = (JobRow, Arc<JobSpec>, LogTail);

/// An open group of writes.
pub(crate) struct Transaction<'t> {
    pub(crate) tables: Tables<'t>,
    pub(crate) counters: StoreCounters,
    pub(crate) bounds: StoreLimits,
    pub(crate) now_ms: u64,
    /// For how long this time is distrusted, milliseconds; 0: it is trusted.
    pub(crate) distrust_ms: u64,
    pub(crate) fair: HashMap<FairKey, u64>,
    pub(crate) effects: CommitEffects,
    /// The error for new work while the disk is nearly full.
    pub(crate) low_disk: Option<StoreError>,
    leases: &'t Leases,
    /// The jobs in memory.
    pub(crate) volatile: &'t VolatileJobs,
    /// The clock of new leases' tokens.
    pub(crate) clock: &'t Arc<dyn Clock>,
    /// Signs what retention does to logs.
    pub(crate) log_key: Option<&'t LogSigningKey>,
    /// Changed leases; `None` has ended.
    changed: HashMap<JobId, Option<LeasedJob>>,
    /// The running jobs of each user. Set by the first claim.
    pub(crate) running_jobs: Option<Holdings<UserId>>,
    /// Accepted jobs that the claims of this transaction need not read again.
    pub(crate) fresh_jobs: HashMap<JobId, ClaimableJob>,
    pub(crate) claims: usize,
    /// Owners of rows that this group has written or removed.
    pub(crate) row_owners: HashMap<RowOwner, UserId>,
    /// Bytes of rows that this group has admitted, which the sums of users do not count yet.
    pub(crate) pending_bytes: HashMap<UserId, u64>,
    /// Changes of the lines without a job, by the owners of their batches.
    pub(crate) waiting_lines: OwnerChanges,
    stored: StoreCounters,
    is_dirty: bool,
}

/// Effects of a commit, applied once it is on disk.
#[derive(Debug, Default)]
pub(crate) struct CommitEffects {
    /// The newest `seq` of every job that got events.
    pub(crate) new_seqs: HashMap<JobId, u64>,
    /// New change counters of batches.
    pub(crate) batch_changes: HashMap<BatchId, u64>,
    /// Tokens to cancel.
    pub(crate) cancels: Vec<(CancelToken, CancelReason)>,
    /// A delivery became due.
    pub(crate) has_due_delivery: bool,
    /// Deleted jobs and their owners.
    pub(crate) removed_jobs: Vec<(UserId, JobId)>,
    /// Jobs that were in memory.
    pub(crate) stored_volatile: Vec<JobId>,
    /// Metrics of the group.
    pub(crate) metrics: CommitMetrics,
}

/// Result of a group of writes, before its commit.
#[derive(Debug)]
pub(crate) struct CommitOutcome {
    pub(crate) changed: HashMap<JobId, Option<LeasedJob>>,
    pub(crate) effects: CommitEffects,
    /// Leases for the waiting claims.
    pub(crate) leases: ClaimedLeases,
    /// The queue behind the commit.
    pub(crate) queue: QueueLength,
    /// Whether there is anything to commit.
    pub(crate) is_dirty: bool,
}

impl<'t> Transaction<'t> {
    pub(crate) fn new(tables: Tables<'t>, context: &TransactionContext<'t>) -> Result<Self, StoreError> {
        let TransactionContext { leases, volatile, clock, log_key, bounds, now_ms, distrust_ms, claims } =
            *context;
        let stored = tables.load_counters()?;
        Ok(Self {
            tables,
            counters: stored.clone(),
            bounds,
            now_ms,
            distrust_ms,
            fair: HashMap::new(),
            effects: CommitEffects::default(),
            low_disk: None,
            leases,
            volatile,
            clock,
            log_key,
            changed: HashMap::new(),
            running_jobs: None,
            fresh_jobs: HashMap::new(),
            claims,
            row_owners: HashMap::new(),
            pending_bytes: HashMap::new(),
            waiting_lines: OwnerChanges::default(),
            stored,
            is_dirty: false,
        })
    }

    /// Marks the transaction as one that has to be committed.
    pub(crate) fn mark_dirty(&mut self) {
        self.is_dirty = true;
    }

    /// Writes the collected changes and closes the tables.
    pub(crate) fn finish(mut self) -> Result<CommitOutcome, StoreError> {
        for (job, leased) in &mut self.changed {
            if let Some(leased) = leased {
                self.tables.flush(*job, &mut leased.tail)?;
            }
        }
        for (key, fair) in &self.fair {
            self.tables.fair.insert(&key.encode(), fair)?;
        }
        if self.counters != self.stored {
            self.tables.store_counters(&self.counters)?;
        }
        // A row that was set aside counts no longer.
        self.is_dirty |= self.tables.quarantine_malformed()?;
        self.count_stored_bytes()?;
        self.count_unfinished_work()?;
        let due_ms = self.next_due_ms()?;
        self.is_dirty |= self.tables.quarantine_malformed()?;
        let ready = self.tables.ready.len()?;
        let Self { changed, effects, is_dirty, counters, .. } = self;
        let queue = QueueLength { ready, due_ms, unfinished: counters.unfinished };
        Ok(CommitOutcome { changed, effects, leases: ClaimedLeases::default(), queue, is_dirty })
    }

    /// Takes the lease of a valid fence. The caller returns it with [`Transaction::keep`] or ends it with
    /// [`Transaction::drop_lease`].
    ///
    /// A lease that this group has changed already is moved, not copied, because its growing delta is large.
    pub(crate) fn lease(&mut self, fence: Fence) -> Result<LeasedJob, LeaseError> {
        self.check_fence(fence)?;
        let changed = self.changed.remove(&fence.job).flatten();
        let leased = changed.or_else(|| self.leases.get(&fence.job).cloned());
        leased.ok_or(LeaseError::Fenced { job: fence.job })
    }

    /// Refuses a fence whose lease is lost.
    pub(crate) fn check_fence(&self, fence: Fence) -> Result<(), LeaseError> {
        let leased = match self.changed.get(&fence.job) {
            Some(changed) => changed.as_ref(),
            None => self.leases.get(&fence.job),
        };
        match leased {
            Some(leased) if leased.row.job.epoch == fence.epoch => Ok(()),
            _ => Err(LeaseError::Fenced { job: fence.job }),
        }
    }

    /// Takes the lease of a running job with any epoch; the caller returns it as well.
    pub(crate) fn lease_of(&mut self, row: &JobRow) -> Option<LeasedJob> {
        self.lease(Fence { job: row.id(), epoch: row.job.epoch }).ok()
    }

    /// Whether the job is leased.
    pub(crate) fn is_leased(&self, job: JobId) -> bool {
        self.changed.get(&job).map_or_else(|| self.leases.contains_key(&job), Option::is_some)
    }

    /// The running jobs of each user.
    pub(crate) fn count_running_jobs(&self) -> Holdings<UserId> {
        let unchanged = self.leases.iter().filter(|(job, _)| !self.changed.contains_key(job));
        let leases = unchanged.map(|(_, leased)| leased).chain(self.changed.values().flatten());
        let mut running = Holdings::default();
        leases.for_each(|leased| running.take(leased.row.job.user, 1));
        let is_counted = |job: &JobId| self.changed.contains_key(job) || self.leases.contains_key(job);
        for (_, user) in self.volatile.owners().into_iter().filter(|(job, _)| !is_counted(job)) {
            running.take(user, 1);
        }
        running
    }

    /// Returns a changed lease; its readers are woken after the commit.
    pub(crate) fn keep(&mut self, leased: LeasedJob) {
        self.notify_event(leased.row.id(), leased.tail.seq);
        self.set_row_owner(RowOwner::Job(leased.row.id()), leased.row.job.user);
        self.changed.insert(leased.row.id(), Some(leased));
    }

    /// Ends the lease.
    pub(crate) fn drop_lease(&mut self, job: JobId) {
        self.changed.insert(job, None);
    }

    /// Records that the job has events up to `seq`.
    pub(crate) fn notify_event(&mut self, job: JobId, seq: u64) {
        self.mark_dirty();
        self.effects.new_seqs.insert(job, seq);
    }

    /// The row of a job that must exist.
    pub(crate) fn row(&self, job: JobId) -> Result<JobRow, StoreError> {
        self.find_row(job)?.ok_or_else(|| StoreError::Corrupt(format!("{job} has no row")))
    }

    /// The row of a job, if there is such a job.
    pub(crate) fn find_row(&self, job: JobId) -> Result<Option<JobRow>, StoreError> {
        self.tables.jobs.row(&job.to_bytes())
    }

    /// The row of a job, if there is one that can be read.
    pub(crate) fn find_readable_row(&self, job: JobId) -> Result<Option<JobRow>, StoreError> {
        match self.find_row(job) {
            Err(StoreError::Corrupt(_)) => Ok(None),
            row => row,
        }
    }

    /// The row of a job, if it is this user's (P7).
    pub(crate) fn find_own_row(&self, user: UserId, job: JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(self.find_row(job)?.filter(|row| row.job.user == user))
    }

    /// The job as its owner sees it.
    pub(crate) fn shown(&self, row: JobRow) -> Result<Job, StoreError> {
        shown(row, self.now_ms, &self.tables.conversation_queue)
    }

    /// The request of a job that must exist.
    pub(crate) fn spec(&self, job: JobId) -> Result<JobSpec, StoreError> {
        let spec = self.tables.specs.row(&job.to_bytes())?;
        spec.ok_or_else(|| StoreError::Corrupt(format!("{job} has no spec")))
    }

    /// Writes a row without a change of state.
    pub(crate) fn put_row(&mut self, row: &JobRow) -> Result<(), StoreError> {
        self.mark_dirty();
        self.fresh_jobs.remove(&row.id());
        self.set_row_owner(RowOwner::Job(row.id()), row.job.user);
        self.tables.jobs.put_row(&row.id().to_bytes(), row)?;
        Ok(())
    }

    /// Moves a job into another state and writes its row.
    pub(crate) fn move_row(&mut self, row: &mut JobRow, next: JobStatus) -> Result<(), StoreError> {
        let key = |row: &JobRow| {
            JobOwnerKey { user: row.job.user, status: row.job.status, accept: row.accept }.encode()
        };
        self.tables.owned.remove(&key(row))?;
        if let Some(running) = &mut self.running_jobs {
            match (row.job.status, next) {
                (JobStatus::Running, JobStatus::Running) => {}
                (_, JobStatus::Running) => running.take(row.job.user, 1),
                (JobStatus::Running, _) => running.give_back(row.job.user, 1),
                _ => {}
            }
        }
        row.become_status(next)?;
        self.tables.owned.insert(&key(row), &row.id().to_bytes())?;
        if next == JobStatus::Running {
            self.tables.running.insert(&row.id().to_bytes(), ())?;
            row.queue_place = QueuePlace::Out;
        } else {
            self.tables.running.remove(&row.id().to_bytes())?;
        }
        self.put_row(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::event::StepKind;
    use crate::domain::id::UserId;
    use crate::store::rows::lease::PendingDelta;
    use redb::backends::InMemoryBackend;

    fn job() -> Job {
        let queued = Job::queued(JobId::from_bits(1), UserId(1), 0, &spec());
        Job { status: JobStatus::Running, attempt: 1, epoch: 1, last_event_id: 1, ..queued }
    }

    fn spec() -> JobSpec {
        JobSpec::new("demo".to_owned(), Vec::new(), 1, 1)
    }

    #[test]
    fn a_growing_delta_is_moved_between_writes_without_a_copy() {
        let database = redb::Builder::new().create_with_backend(InMemoryBackend::new()).unwrap();
        let writing = database.begin_write().unwrap();
        let (leases, volatile) = (Leases::new(), VolatileJobs::default());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let bounds = StoreLimits {
            queue_jobs: 1,
            job_dependents: 1,
            crashes: 1,
            history_bytes: 1,
            idempotency_ms: 1,
            ageing_ms: 1,
            accounts: 10_000,
            conversations: 1,
            user_files: 1,
            user_files_bytes: 1,
            files_ms: None,
            model_schedules: 1,
            model_schedule_tokens: 0,
            share: None,
            has_quotas: false,
            exports_spans: false,
            chains_logs: true,
        };
        let tables = Tables::open(&writing).unwrap();
        let mut transaction = Transaction::new(
            tables,
            &TransactionContext {
                leases: &leases,
                volatile: &volatile,
                clock: &clock,
                log_key: None,
                bounds,
                now_ms: 0,
                distrust_ms: 0,
                claims: 0,
            },
        )
        .unwrap();
        let row = JobRow::new(job(), 1);
        let text = "grown over many writes".to_owned();
        let (grown, kind) = (text.as_ptr(), StepKind::Text);
        let piece = Some(PendingDelta { index: 0, kind, offset: 0, first_seq: 1, text });
        let tail = LogTail { piece, ..LogTail::default() };
        transaction.keep(LeasedJob {
            row: Arc::new(row),
            spec: Arc::new(spec()),
            cancel: CancelToken::new(Arc::clone(&clock)),
            tail,
        });
        let fence = Fence { job: JobId::from_bits(1), epoch: 1 };
        assert!(transaction.lease(Fence { epoch: 2, ..fence }).is_err(), "refused, and left where it is");
        let found = transaction.lease(fence).unwrap();
        assert_eq!(found.tail.piece.unwrap().text.as_ptr(), grown);
    }
}
