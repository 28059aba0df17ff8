//! The writer thread: applies a group of writes, commits, fsyncs, then resolves the tickets and wakes readers
//! and workers (P1, P2). After a disk error or a panic it reopens the file. If that does not help, it ends.

use crate::domain::id::{BatchId, JobId};
use crate::ports::{CancelReason, Lease, Measurement, StoreError};
use crate::store::damage_panic::DAMAGED_STORE;
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::file::watermark::DiskWatermark;
use crate::store::redb::writer::group::{WriteGroup, WriterRequest};
use crate::store::redb::writer::health::StoreHealth;
use crate::store::redb::writer::recovery::RecoveryCause;
use crate::store::redb::writer::shared::{StoreShared, WriterLossCause};
use crate::store::redb::writer::transaction::{CommitOutcome, Transaction, TransactionContext};
use crate::store::redb::writer::write::{QueuedWrite, WriteOptions, queued_write};
use crate::store::rows::clock_trust::{ClockReading, StoredClock};
use crate::store::rows::lease::{ClaimedLeases, Leases};
use crate::store::rows::sweeper::{RetentionSweep, Sweeper};
use crate::store::slow_commits::{CommitTiming, SlowCommits};
use crate::store::waiting_claims::{PublishedQueue, WaitingClaim};
use redb::WriteTransaction;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Below this size a full repair is fast enough for a start, so commits under load skip the second fsync.
const SMALL_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Above this size a full repair is too slow even under load: about 1.2 s for each GiB. A server that was
/// killed during writes to 1 GiB was ready after 1,200 ms; with each commit settled, after 28 ms.
/// This costs 64 clients a tenth to a quarter of their writes (10,500 → 9,400 and 19,100 → 14,100 a second at
/// 1 GiB).
const LARGE_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// A larger group counts as load even when the channel is empty: its callers will soon write again.
const LOAD_WRITES: usize = 8;
/// Interval at which a broken store is reopened without a write.
const HEAL_EVERY: Duration = Duration::from_secs(1);
/// Interval at which an idle writer checks that the file is in its place.
const CHECK_PLACE_EVERY: Duration = Duration::from_secs(1);

/// The thread's own state.
pub(crate) struct WriterThread {
    shared: Arc<StoreShared>,
    leases: Leases,
    /// The last commit left the allocator's state on disk: the next open is quick.
    is_settled: bool,
    health: StoreHealth,
    /// What the next reopening recovers from: the crash of the last process until that was recovered once.
    cause: RecoveryCause,
    /// Jobs and batches of failed commits. Their state on disk is unknown until the store is reopened; then
    /// their readers are woken.
    in_doubt_jobs: BTreeSet<JobId>,
    in_doubt_batches: BTreeSet<BatchId>,
    watermark: DiskWatermark,
    sweeper: Sweeper,
    slow: SlowCommits,
    /// When the last commit ended, monotonic milliseconds.
    committed_at_ms: u64,
}

impl WriterThread {
    /// Starts on an open store; recovers the jobs that the last process left running.
    pub(crate) fn start(shared: Arc<StoreShared>) -> Result<Self, StoreError> {
        let watermark = DiskWatermark::new(shared.mark);
        let counters = shared.read(crate::store::redb::codec::tables::counters)?;
        let stored = StoredClock { seen_ms: counters.seen_ms, distrust_ms: counters.distrust_ms };
        shared.clock_trust.resume(ClockReading::of(&*shared.clock), stored);
        let sweeper = Sweeper::new(shared.options.retention.clone(), shared.clock.monotonic_ms());
        let slow = SlowCommits::new(shared.options.slow_commit_ms);
        let mut writer = Self {
            shared,
            leases: Leases::new(),
            is_settled: false,
            health: StoreHealth::default(),
            cause: RecoveryCause::Crash,
            in_doubt_jobs: BTreeSet::new(),
            in_doubt_batches: BTreeSet::new(),
            watermark,
            sweeper,
            slow,
            committed_at_ms: 0,
        };
        match writer.recover() {
            // Reads work, and recovery is tried again every second.
            Err(StoreError::Full) => writer.health.is_broken = true,
            recovered => recovered?,
        }
        Ok(writer)
    }

    /// Serves the channel until it closes. If the store is lost before that, says so and ends: callers get
    /// [`StoreError::Closed`].
    pub(crate) fn run(mut self, channel: &Receiver<WriterRequest>) {
        // A panic outside of a commit leaves leases and file at odds.
        let is_lost = catch_unwind(AssertUnwindSafe(|| self.serve(channel))).unwrap_or(true);
        let reason = if is_lost { CancelReason::LeaseLost } else { CancelReason::Shutdown };
        for leased in self.leases.values() {
            leased.cancel.cancel(reason);
        }
        self.shared.volatile.close(reason);
        self.shared.handle.close();
        self.shared.claims.close();
        if is_lost {
            let cause = self.health.loss_cause();
            match cause {
                WriterLossCause::Failure => {
                    tracing::error!(
                        "the store cannot be written any more; only a restart of the server can help"
                    );
                }
                WriterLossCause::Damage => tracing::error!("{DAMAGED_STORE}"),
            }
            self.shared.writer_loss.report(cause);
        }
    }

    /// Returns whether the store is lost.
    fn serve(&mut self, channel: &Receiver<WriterRequest>) -> bool {
        while !self.is_lost() {
            self.shared.volatile.set_open(!self.health.is_broken);
            match self.next(channel) {
                Ok(WriterRequest::Close) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(first) => {
                    let group = WriteGroup::gather(first, channel, &self.shared, self.committed_at_ms);
                    let (closes, is_last) = (group.closes, group.is_last);
                    let quick = self.wants_quick_repair(&group);
                    self.write(group.writes, quick);
                    if closes {
                        break;
                    }
                    if is_last {
                        self.sweep_if_due();
                    }
                }
                Err(RecvTimeoutError::Timeout) if self.health.is_broken => drop(self.reopen()),
                Err(RecvTimeoutError::Timeout) if self.has_due_job() => self.serve_claims(),
                Err(RecvTimeoutError::Timeout) => {
                    self.settle();
                    self.sweep_if_due();
                    self.check_place();
                }
            }
            if !self.health.is_broken && self.shared.claims.has_unserved() {
                self.serve_claims();
            }
        }
        if self.is_lost() {
            return true;
        }
        // Settle even without pending writes: the file records when it was last open.
        self.is_settled = false;
        self.settle();
        false
    }

    fn next(&self, channel: &Receiver<WriterRequest>) -> Result<WriterRequest, RecvTimeoutError> {
        if self.health.is_broken {
            return channel.recv_timeout(HEAL_EVERY);
        }
        let idle = if self.is_settled {
            self.sweeper.wait(self.shared.clock.monotonic_ms()).min(CHECK_PLACE_EVERY)
        } else {
            Duration::from_millis(self.shared.options.settle_ms)
        };
        let due = self.shared.claims.due_in(self.shared.clock.now_ms());
        channel.recv_timeout(due.map_or(idle, |due| due.min(idle)))
    }

    fn has_due_job(&self) -> bool {
        self.shared.claims.due_in(self.shared.clock.now_ms()).is_some_and(|due| due.is_zero())
    }

    /// Makes one commit for the waiting claims, if there is a job for them.
    fn serve_claims(&mut self) {
        self.write(Vec::new(), self.shared.medium.bytes() > SMALL_FILE_BYTES);
    }

    fn check_place(&mut self) {
        if let Err(error) = self.shared.medium.check_place() {
            tracing::error!(%error, "the store takes no writes");
            self.health.is_broken = true;
        }
    }

    fn wants_quick_repair(&self, group: &WriteGroup) -> bool {
        let bytes = self.shared.medium.bytes();
        let is_quiet = group.is_last && group.writes.len() <= LOAD_WRITES;
        bytes > LARGE_FILE_BYTES || (is_quiet && bytes > SMALL_FILE_BYTES)
    }

    /// Makes one commit for the group and the waiting claims.
    fn write(&mut self, writes: Vec<Box<dyn QueuedWrite>>, quick: bool) {
        let claims = self.shared.claims.take();
        self.write_part(writes, claims, quick);
    }

    /// Makes one commit. If a value cannot be written, makes one commit for each write and one for the
    /// claims, so that only the bad one fails.
    fn write_part(&mut self, mut writes: Vec<Box<dyn QueuedWrite>>, claims: Vec<WaitingClaim>, quick: bool) {
        let mut claims = claims;
        if let Err(error) = self.ensure_open() {
            // Nothing was written, so no job is in doubt and leases stay. It counts as a failed commit.
            self.shared.meter().record(Measurement::CommitFailed);
            resolve_all(writes, &Err(error));
            return self.shared.claims.put_back(claims, true);
        }
        let panics = self.health.panics();
        let began_ms = self.shared.clock.monotonic_ms();
        let outcome = self.commit(&mut writes, &mut claims, quick);
        let ended_ms = self.shared.clock.monotonic_ms();
        let timed = CommitTiming { began_ms, ended_ms, writes: writes.len() };
        self.slow.watch(timed, || Some(self.shared.medium.bytes()));
        // After a panic what redb has in memory is in doubt.
        self.health.is_broken |= self.health.panics() > panics;
        match outcome {
            Ok(leases) => {
                resolve_all(writes, &Ok(()));
                self.shared.claims.resolve(claims, leases);
            }
            Err(StoreError::Corrupt(_)) if writes.len().saturating_add(claims.len().min(1)) > 1 => {
                for write in writes {
                    self.write_part(vec![write], Vec::new(), quick);
                }
                if !claims.is_empty() {
                    self.write_part(Vec::new(), claims, quick);
                }
            }
            Err(error) => {
                if error.breaks_store() {
                    tracing::error!(%error, "commit failed; the store is reopened before the next one");
                    self.shared.meter().record(Measurement::CommitFailed);
                    self.mark_broken(&writes);
                    self.shared.claims.put_back(claims, true);
                } else {
                    self.shared.claims.fail(claims, &error);
                }
                resolve_all(writes, &Err(error));
            }
        }
    }

    fn ensure_open(&mut self) -> Result<(), StoreError> {
        match self.health.is_broken {
            true if self.is_lost() => Err(StoreError::Closed),
            true => self.reopen(),
            false => Ok(()),
        }
    }

    fn is_lost(&self) -> bool {
        self.health.is_lost(self.shared.clock.monotonic_ms())
    }

    /// Applies the writes, leases jobs to claims, and commits both. During the commit the workers of early
    /// leases work, and claims without a job wait again.
    fn commit(
        &mut self,
        writes: &mut [Box<dyn QueuedWrite>],
        claims: &mut Vec<WaitingClaim>,
        quick: bool,
    ) -> Result<Vec<Lease>, StoreError> {
        let now_ms = self.shared.clock.monotonic_ms();
        let low_disk = self.watermark.check(self.shared.medium.as_ref(), now_ms);
        let group = writes.len();
        // Until the commit nothing is in doubt: a panic is the fault of one write, as an unreadable value is.
        let (writing, mut committed) =
            self.health.catch(StoreError::Corrupt, || self.apply(writes, quick, low_disk, claims.len()))?;
        let spare = claims.len().saturating_sub(committed.leases.len());
        self.shared.claims.put_back(claims.drain(..spare).collect(), false);
        let ClaimedLeases { early, committed: leases } = std::mem::take(&mut committed.leases);
        let early_cancels: Vec<_> = early.iter().map(|lease| lease.cancel.clone()).collect();
        self.shared.claims.resolve(claims.split_off(leases.len()), early);
        if committed.is_dirty {
            let began_us = self.shared.clock.monotonic_us();
            let landed = self.health.catch(StoreError::Io, || Ok(writing.commit()?));
            // A file that has lost its name keeps no promise.
            if let Err(error) = landed.and_then(|()| self.shared.medium.check_place()) {
                for cancel in early_cancels {
                    cancel.cancel(CancelReason::LeaseLost);
                }
                self.in_doubt_jobs.extend(committed.changed.keys().chain(committed.effects.new_seqs.keys()));
                self.in_doubt_batches.extend(committed.effects.batch_changes.keys());
                return Err(error);
            }
            self.health.note_commit();
            self.committed_at_ms = self.shared.clock.monotonic_ms();
            let took_us = self.shared.clock.monotonic_us().saturating_sub(began_us);
            self.shared.meter().record(Measurement::Committed { writes: group, took_us });
            self.is_settled = quick;
            self.publish(committed);
        }
        Ok(leases)
    }

    /// Applies the writes and the claims to a new transaction, not committed yet.
    fn apply(
        &self,
        writes: &mut [Box<dyn QueuedWrite>],
        quick: bool,
        low_disk: Option<StoreError>,
        claims: usize,
    ) -> Result<(WriteTransaction, CommitOutcome), StoreError> {
        let mut writing = self.shared.handle.write()?;
        writing.set_quick_repair(quick);
        let (bounds, clock) = (self.shared.bounds, &self.shared.clock);
        let now = ClockReading::of(&**clock);
        let distrust_ms = self.shared.clock_trust.check(now);
        let (leases, now_ms) = (&self.leases, now.wall_ms);
        let volatile = &self.shared.volatile;
        let log_key = self.shared.log_key.get();
        let context =
            TransactionContext { leases, volatile, clock, log_key, bounds, now_ms, distrust_ms, claims };
        let mut transaction = Transaction::new(Tables::reporting(&writing, &self.shared.damage), &context)?;
        transaction.low_disk = low_disk;
        for write in writes {
            for job in &write.options().jobs {
                transaction.store_volatile(*job)?;
            }
            write.apply(&mut transaction)?;
        }
        let leases = if claims > 0 { transaction.claim_jobs(claims)? } else { ClaimedLeases::default() };
        let committed = CommitOutcome { leases, ..transaction.finish()? };
        Ok((writing, committed))
    }

    /// Updates the memory after a commit, and wakes readers and workers.
    fn publish(&mut self, committed: CommitOutcome) {
        for (job, leased) in committed.changed {
            match leased {
                Some(leased) => self.leases.insert(job, leased),
                None => self.leases.remove(&job),
            };
        }
        let effects = committed.effects;
        self.shared.volatile.remove_all(&effects.stored_volatile);
        match self.shared.meter.get() {
            Some(meter) => effects.metrics.report(&**meter),
            // The recovery makes the first commit: no other write is accepted before the store is open.
            None => drop(self.shared.unreported().get_or_insert(effects.metrics)),
        }
        self.shared.claims.publish(PublishedQueue::new(committed.queue, &self.leases));
        for (job, seq) in effects.new_seqs {
            self.shared.watches.bump(job, seq);
        }
        for (batch, new_seqs) in effects.batch_changes {
            self.shared.batch_watches.bump(batch, new_seqs);
        }
        for (cancel, reason) in effects.cancels {
            cancel.cancel(reason);
        }
        if effects.has_due_delivery {
            self.shared.deliveries.notify();
        }
        self.shared.job_removals.publish(effects.removed_jobs);
    }

    /// A commit failed. It may have reached the disk or not, so the jobs that it touched lose their leases:
    /// after reopening they are read from disk and run again from there, and no worker repeats a write that
    /// had landed.
    fn mark_broken(&mut self, writes: &[Box<dyn QueuedWrite>]) {
        self.health.is_broken = true;
        self.in_doubt_jobs.extend(writes.iter().flat_map(|write| &write.options().jobs));
        for job in &self.in_doubt_jobs {
            if let Some(leased) = self.leases.remove(job) {
                leased.cancel.cancel(CancelReason::LeaseLost);
            }
        }
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.shared.medium.check_place()?;
        let takes_writes = self.shared.medium.takes_writes().map_err(StoreError::from);
        let opened = match &takes_writes {
            Ok(()) => self.reopen_for_writing(),
            Err(error) => self.reopen_for_reading(error),
        };
        self.health.note_reopening(&opened, self.shared.clock.monotonic_ms());
        takes_writes.and(opened)?;
        self.health.is_broken = false;
        tracing::info!("store reopened");
        self.wake_readers_in_doubt();
        Ok(())
    }

    fn reopen_for_writing(&mut self) -> Result<(), StoreError> {
        let (medium, cache_bytes) = (self.shared.medium.as_ref(), self.shared.options.cache_bytes);
        self.health.catch(StoreError::Io, || self.shared.handle.reopen(medium, cache_bytes))?;
        self.is_settled = false;
        self.recover()
    }

    fn reopen_for_reading(&self, error: &StoreError) -> Result<(), StoreError> {
        let (medium, cache_bytes) = (self.shared.medium.as_ref(), self.shared.options.cache_bytes);
        let open = || self.shared.handle.reopen_for_reading(medium, cache_bytes, error);
        self.health.catch(StoreError::Io, open)
    }

    fn wake_readers_in_doubt(&mut self) {
        for job in std::mem::take(&mut self.in_doubt_jobs) {
            // A reader whose job cannot be read now is woken by its next event.
            if let Ok(seq) =
                self.shared.read(|reading| crate::store::redb::jobs::read::last_seq(reading, job))
            {
                if seq > 0
                    && let Some(stored) = self.shared.volatile.remove(job)
                {
                    stored.cancel.cancel(CancelReason::LeaseLost);
                }
                self.shared.watches.bump(job, seq);
            }
        }
        for batch in std::mem::take(&mut self.in_doubt_batches) {
            if let Ok(new_seqs) =
                self.shared.read(|reading| crate::store::redb::batches::read::new_seqs(reading, batch))
            {
                self.shared.batch_watches.bump(batch, new_seqs);
            }
        }
    }

    fn recover(&mut self) -> Result<(), StoreError> {
        let cause = self.cause;
        let (recover, ticket) =
            queued_write(WriteOptions::default(), move |transaction| transaction.recover_jobs(cause));
        drop(ticket);
        let quick = self.shared.medium.bytes() > SMALL_FILE_BYTES;
        self.commit(&mut [recover], &mut Vec::new(), quick)?;
        let length = self.shared.read(crate::store::redb::jobs::read::queue)?;
        self.shared.claims.publish(PublishedQueue::new(length, &self.leases));
        self.cause = RecoveryCause::Disk;
        Ok(())
    }

    /// Runs one transaction of retention while the store is idle, if it is due.
    fn sweep_if_due(&mut self) {
        if self.health.is_broken || !self.sweeper.is_due(self.shared.clock.monotonic_ms()) {
            return;
        }
        let now = ClockReading::of(&*self.shared.clock);
        self.sweeper.postpone(now.monotonic_ms);
        let is_trusted = self.shared.clock_trust.check(now) == 0;
        let sweep = if is_trusted { self.sweeper.sweep(now.wall_ms) } else { RetentionSweep::default() };
        let (sweep, more) =
            queued_write(WriteOptions::default(), move |transaction| transaction.sweep(&sweep));
        self.write(vec![sweep], true);
        if more.wait() == Ok(true) {
            self.sweeper.run_when_idle(self.shared.clock.monotonic_ms());
        }
    }

    /// One commit while the store is idle, which makes the next open quick.
    fn settle(&mut self) {
        if !self.is_settled && !self.health.is_broken {
            let (beat, ticket) = queued_write(WriteOptions::default(), |transaction| {
                transaction.beat();
                Ok::<_, StoreError>(())
            });
            drop(ticket);
            self.write(vec![beat], true);
            // Try only once: the next write reports a failing disk.
            self.is_settled = true;
        }
    }
}

fn resolve_all(writes: Vec<Box<dyn QueuedWrite>>, outcome: &Result<(), StoreError>) {
    for write in writes {
        write.settle(outcome.clone());
    }
}
