//! The writer thread: applies a group of writes, commits, fsyncs, then resolves the tickets and wakes readers
//! and workers (P1, P2). After a disk error it reopens the file.

use crate::domain::id::{BatchId, JobId};
use crate::ports::{CancelReason, Measurement, StoreError};
use crate::store::redb::codec::tables::Tables;
use crate::store::redb::file::watermark::DiskWatermark;
use crate::store::redb::queue::lease::Leases;
use crate::store::redb::retention::clock_trust::{ClockReading, StoredClock};
use crate::store::redb::retention::sweep::RetentionSweep;
use crate::store::redb::retention::sweeper::Sweeper;
use crate::store::redb::writer::group::{WriteGroup, WriterRequest};
use crate::store::redb::writer::recovery::RecoveryCause;
use crate::store::redb::writer::shared::StoreShared;
use crate::store::redb::writer::slow_commits::{CommitTiming, SlowCommits};
use crate::store::redb::writer::transaction::{CommitOutcome, Transaction, TransactionContext};
use crate::store::redb::writer::write::{QueuedWrite, WriteOptions, queued_write};
use std::collections::BTreeSet;
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

/// The thread's own state.
pub(crate) struct WriterThread {
    shared: Arc<StoreShared>,
    leases: Leases,
    /// The last commit left the allocator's state on disk: the next open is quick.
    is_settled: bool,
    /// A commit failed; redb refuses writes until it is reopened.
    is_broken: bool,
    /// Jobs and batches of failed commits. Their state on disk is unknown until the store is reopened; then
    /// their readers are woken.
    in_doubt_jobs: BTreeSet<JobId>,
    in_doubt_batches: BTreeSet<BatchId>,
    watermark: DiskWatermark,
    sweeper: Sweeper,
    slow: SlowCommits,
}

impl WriterThread {
    /// Starts on an open store; recovers the jobs that the last process left running.
    pub(crate) fn start(shared: Arc<StoreShared>) -> Result<Self, StoreError> {
        let watermark = DiskWatermark::new(shared.mark);
        let counters = shared.handle.read(crate::store::redb::codec::tables::counters)?;
        let stored = StoredClock { seen_ms: counters.seen_ms, distrust_ms: counters.distrust_ms };
        shared.clock_trust.resume(ClockReading::of(&*shared.clock), stored);
        let sweeper = Sweeper::new(shared.options.retention.clone(), shared.clock.monotonic_ms());
        let slow = SlowCommits::new(shared.options.slow_commit_ms);
        let mut writer = Self {
            shared,
            leases: Leases::new(),
            is_settled: false,
            is_broken: false,
            in_doubt_jobs: BTreeSet::new(),
            in_doubt_batches: BTreeSet::new(),
            watermark,
            sweeper,
            slow,
        };
        writer.recover(RecoveryCause::Crash)?;
        Ok(writer)
    }

    /// Serves the channel until it closes.
    pub(crate) fn run(mut self, channel: &Receiver<WriterRequest>) {
        loop {
            match self.next(channel) {
                Ok(WriterRequest::Write(first)) => {
                    let group = WriteGroup::gather(first, channel, &self.shared);
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
                Err(RecvTimeoutError::Timeout) if self.is_broken => drop(self.reopen()),
                Err(RecvTimeoutError::Timeout) => {
                    self.settle();
                    self.sweep_if_due();
                }
                Ok(WriterRequest::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Settle even without pending writes: the file records when it was last open.
        self.is_settled = false;
        self.settle();
        for leased in self.leases.values() {
            leased.cancel.cancel(CancelReason::Shutdown);
        }
        self.shared.handle.close();
    }

    fn next(&self, channel: &Receiver<WriterRequest>) -> Result<WriterRequest, RecvTimeoutError> {
        if self.is_broken {
            channel.recv_timeout(HEAL_EVERY)
        } else if self.is_settled {
            channel.recv_timeout(self.sweeper.wait(self.shared.clock.monotonic_ms()))
        } else {
            channel.recv_timeout(Duration::from_millis(self.shared.options.settle_ms))
        }
    }

    fn wants_quick_repair(&self, group: &WriteGroup) -> bool {
        let bytes = self.shared.medium.bytes();
        let is_quiet = group.is_last && group.writes.len() <= LOAD_WRITES;
        bytes > LARGE_FILE_BYTES || (is_quiet && bytes > SMALL_FILE_BYTES)
    }

    /// Makes one commit for the group. If a value cannot be written, makes one commit for each write, so that
    /// only the bad one fails.
    fn write(&mut self, mut writes: Vec<Box<dyn QueuedWrite>>, quick: bool) {
        if let Err(error) = self.ensure_open() {
            // Nothing was written, so no job is in doubt and leases stay. It counts as a failed commit.
            self.shared.meter().record(Measurement::CommitFailed);
            resolve_all(writes, &Err(error));
            return;
        }
        let began_ms = self.shared.clock.monotonic_ms();
        let outcome = self.commit(&mut writes, quick);
        let ended_ms = self.shared.clock.monotonic_ms();
        self.slow
            .watch(CommitTiming { began_ms, ended_ms, writes: writes.len() }, || self.shared.medium.bytes());
        match outcome {
            Err(StoreError::Corrupt(_)) if writes.len() > 1 => {
                for write in writes {
                    self.write(vec![write], quick);
                }
            }
            outcome => {
                if let Err(error @ (StoreError::Io(_) | StoreError::Full)) = &outcome {
                    tracing::error!(%error, "commit failed; the store is reopened before the next one");
                    self.shared.meter().record(Measurement::CommitFailed);
                    self.mark_broken(&writes);
                }
                resolve_all(writes, &outcome);
            }
        }
    }

    fn ensure_open(&mut self) -> Result<(), StoreError> {
        if self.is_broken { self.reopen() } else { Ok(()) }
    }

    fn commit(&mut self, writes: &mut [Box<dyn QueuedWrite>], quick: bool) -> Result<(), StoreError> {
        let mut writing = self.shared.handle.write()?;
        writing.set_quick_repair(quick);
        let (bounds, clock) = (self.shared.bounds, &self.shared.clock);
        let now = ClockReading::of(&**clock);
        let distrust_ms = self.shared.clock_trust.check(now);
        let context =
            TransactionContext { leases: &self.leases, clock, bounds, now_ms: now.wall_ms, distrust_ms };
        let mut transaction = Transaction::new(Tables::of(&writing), &context)?;
        transaction.low_disk = self.watermark.check(self.shared.medium.as_ref(), clock.monotonic_ms());
        let group = writes.len();
        for write in writes {
            write.apply(&mut transaction)?;
        }
        let committed = transaction.finish()?;
        if committed.is_dirty {
            let began_us = clock.monotonic_us();
            if let Err(error) = writing.commit() {
                self.in_doubt_jobs.extend(committed.changed.keys().chain(committed.effects.new_seqs.keys()));
                self.in_doubt_batches.extend(committed.effects.batch_changes.keys());
                return Err(error.into());
            }
            let took_us = clock.monotonic_us().saturating_sub(began_us);
            self.shared.meter().record(Measurement::Committed { writes: group, took_us });
            self.is_settled = quick;
            self.publish(committed);
        }
        Ok(())
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
        match self.shared.meter.get() {
            Some(meter) => effects.metrics.report(&**meter),
            // The recovery makes the first commit: no other write is accepted before the store is open.
            None => drop(self.shared.unreported().get_or_insert(effects.metrics)),
        }
        self.shared.work.publish(committed.ready, effects.readied, committed.due_ms);
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
        self.is_broken = true;
        self.in_doubt_jobs.extend(writes.iter().flat_map(|write| &write.options().jobs));
        for job in &self.in_doubt_jobs {
            if let Some(leased) = self.leases.remove(job) {
                leased.cancel.cancel(CancelReason::LeaseLost);
            }
        }
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.shared.handle.reopen(self.shared.medium.as_ref(), self.shared.options.cache_bytes)?;
        self.is_settled = false;
        self.recover(RecoveryCause::Disk)?;
        self.is_broken = false;
        tracing::info!("store reopened");
        for job in std::mem::take(&mut self.in_doubt_jobs) {
            // A reader whose job cannot be read now is woken by its next event.
            if let Ok(seq) =
                self.shared.handle.read(|reading| crate::store::redb::jobs::read::last_seq(reading, job))
            {
                self.shared.watches.bump(job, seq);
            }
        }
        for batch in std::mem::take(&mut self.in_doubt_batches) {
            if let Ok(new_seqs) =
                self.shared.handle.read(|reading| crate::store::redb::batches::read::new_seqs(reading, batch))
            {
                self.shared.batch_watches.bump(batch, new_seqs);
            }
        }
        Ok(())
    }

    fn recover(&mut self, cause: RecoveryCause) -> Result<(), StoreError> {
        let (recover, ticket) =
            queued_write(WriteOptions::default(), move |transaction| transaction.recover_jobs(cause));
        drop(ticket);
        let quick = self.shared.medium.bytes() > SMALL_FILE_BYTES;
        self.commit(&mut [recover], quick)?;
        let (ready, due_ms) = self.shared.handle.read(crate::store::redb::jobs::read::queue)?;
        self.shared.work.publish(ready, ready, due_ms);
        Ok(())
    }

    /// Runs one transaction of retention while the store is idle, if it is due.
    fn sweep_if_due(&mut self) {
        if self.is_broken || !self.sweeper.is_due(self.shared.clock.monotonic_ms()) {
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
        if !self.is_settled && !self.is_broken {
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
