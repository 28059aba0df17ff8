//! The one thread that writes. Owns the commit: group, fsync, then acknowledge, then wake readers and workers; and the
//! way back after a disk error. Refuses to acknowledge anything before its fsync (P1, P2).

use super::act::{Pending, pend};
use super::bell::Bell;
use super::group::{Backlog, Group, Request};
use super::lease::Leases;
use super::medium::{Handle, Medium};
use super::probe::Probe;
use super::recover::{Cause, Recover};
use super::schema::Tables;
use super::slow::{SlowCommits, Timed};
use super::sweeper::{Moment, Sweeper};
use super::tally::Tally;
use super::transaction::{Bounds, Landing, Transaction};
use super::watches::Watches;
use super::watermark::{Mark, Watermark};
use super::work::Work;
use crate::domain::id::{BatchId, JobId};
use crate::ports::{CancelReason, Clock, Measurement, Meter, NoopMeter, StoreError};
use crate::store::options::StoreOptions;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Below this size a full repair is as quick as a start has to be, so that hot commits are spared the second fsync.
const SMALL_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Above this size a full repair takes too long to risk even under load: about 1.2 s for each GiB, so that a server killed
/// amid writes over 1 GiB was ready after 1,200 ms, and is after 28 with each commit settled. That costs 64 clients between
/// a tenth and a quarter of their writes (10,500 → 9,400 and 19,100 → 14,100 a second, without and with, over 1 GiB).
const LARGE_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// A group larger than this is load, even when the channel is empty behind it: its callers are about to come back.
const LOAD_WRITES: usize = 8;
/// How often a broken store tries to heal when nobody writes.
const HEAL_EVERY: Duration = Duration::from_secs(1);

/// What the writer shares with readers and waiters.
pub(super) struct Shared {
    pub(super) medium: Box<dyn Medium>,
    pub(super) handle: Handle,
    pub(super) options: StoreOptions,
    pub(super) bounds: Bounds,
    pub(super) mark: Mark,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) backlog: Backlog,
    pub(super) watches: Watches<JobId>,
    pub(super) batch_watches: Watches<BatchId>,
    pub(super) work: Work,
    pub(super) bell: Bell,
    pub(super) meter: OnceLock<Arc<dyn Meter>>,
    /// What recovery has counted before there was a meter.
    pub(super) untold: Mutex<Option<Tally>>,
}

impl Shared {
    /// Whoever shall hear what happens from now on, and what recovery has done; the first one stays.
    pub(super) fn tell(&self, meter: Arc<dyn Meter>) {
        let meter = self.meter.get_or_init(|| meter);
        if let Some(tally) = self.untold().take() {
            tally.tell(&**meter);
        }
    }

    fn untold(&self) -> MutexGuard<'_, Option<Tally>> {
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> &dyn Meter {
        self.meter.get().map_or(&NoopMeter, |meter| &**meter)
    }
}

/// The thread's own state.
pub(super) struct Writer {
    shared: Arc<Shared>,
    leases: Leases,
    /// The last commit left the allocator's state on disk: the next open is quick.
    is_settled: bool,
    /// A commit failed; redb takes no writes until reopened.
    is_broken: bool,
    /// Jobs and batches of failed groups: nobody knows what reached the disk until it is reopened.
    unsure: Vec<JobId>,
    unsure_batches: Vec<BatchId>,
    watermark: Watermark,
    sweeper: Sweeper,
    slow: SlowCommits,
}

impl Writer {
    /// A writer on an open store; recovers what the last process left running.
    pub(super) fn start(shared: Arc<Shared>) -> Result<Self, StoreError> {
        let watermark = Watermark::new(shared.mark);
        let seen_ms = shared.handle.read(super::schema::counters)?.seen_ms;
        let sweeper = Sweeper::new(shared.options.retention.clone(), moment(&*shared.clock), seen_ms);
        let slow = SlowCommits::new(shared.options.slow_commit_ms);
        let mut writer = Self {
            shared,
            leases: Leases::new(),
            is_settled: false,
            is_broken: false,
            unsure: Vec::new(),
            unsure_batches: Vec::new(),
            watermark,
            sweeper,
            slow,
        };
        writer.recover(Cause::Crash)?;
        Ok(writer)
    }

    /// Serves the channel until it closes.
    pub(super) fn run(mut self, channel: &Receiver<Request>) {
        loop {
            match self.next(channel) {
                Ok(Request::Write(first)) => {
                    let group = Group::gather(first, channel, &self.shared);
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
                Err(RecvTimeoutError::Timeout) if self.is_broken => drop(self.heal()),
                Err(RecvTimeoutError::Timeout) => {
                    self.settle();
                    self.sweep_if_due();
                }
                Ok(Request::Close) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // Also when all is settled: the file should know when it was last open.
        self.is_settled = false;
        self.settle();
        for held in self.leases.values() {
            held.stop.cancel(CancelReason::Shutdown);
        }
        self.shared.handle.close();
    }

    fn next(&self, channel: &Receiver<Request>) -> Result<Request, RecvTimeoutError> {
        if self.is_broken {
            channel.recv_timeout(HEAL_EVERY)
        } else if self.is_settled {
            channel.recv_timeout(self.sweeper.wait(self.shared.clock.monotonic_ms()))
        } else {
            channel.recv_timeout(Duration::from_millis(self.shared.options.settle_ms))
        }
    }

    fn wants_quick_repair(&self, group: &Group) -> bool {
        let bytes = self.shared.medium.bytes();
        let is_quiet = group.is_last && group.writes.len() <= LOAD_WRITES;
        bytes > LARGE_FILE_BYTES || (is_quiet && bytes > SMALL_FILE_BYTES)
    }

    /// One commit for the group; if one of its values cannot be written, one commit for each write, so that only that
    /// one fails.
    fn write(&mut self, mut writes: Vec<Box<dyn Pending>>, quick: bool) {
        if let Err(error) = self.ensure_whole() {
            // Nothing was tried, so nothing is in doubt: leases stay. To whoever wrote it is one more commit that failed.
            self.shared.meter().record(Measurement::CommitFailed);
            settle_all(writes, &Err(error));
            return;
        }
        let began_ms = self.shared.clock.monotonic_ms();
        let verdict = self.commit(&mut writes, quick);
        let ended_ms = self.shared.clock.monotonic_ms();
        self.slow.watch(Timed { began_ms, ended_ms, writes: writes.len() }, || self.shared.medium.bytes());
        match verdict {
            Err(StoreError::Corrupt(_)) if writes.len() > 1 => {
                for write in writes {
                    self.write(vec![write], quick);
                }
            }
            verdict => {
                if let Err(error @ (StoreError::Io(_) | StoreError::Full)) = &verdict {
                    tracing::error!(%error, "a commit failed; the store reopens before the next one");
                    self.shared.meter().record(Measurement::CommitFailed);
                    self.break_off(&writes);
                }
                settle_all(writes, &verdict);
            }
        }
    }

    fn ensure_whole(&mut self) -> Result<(), StoreError> {
        if self.is_broken { self.heal() } else { Ok(()) }
    }

    fn commit(&mut self, writes: &mut [Box<dyn Pending>], quick: bool) -> Result<(), StoreError> {
        let mut writing = self.shared.handle.write()?;
        writing.set_quick_repair(quick);
        let now_ms = self.shared.clock.now_ms();
        let tables = Tables::of(&writing);
        let mut transaction =
            Transaction::new(tables, (&self.leases, &self.shared.clock), self.shared.bounds, now_ms)?;
        let clock = &self.shared.clock;
        transaction.low_disk = self.watermark.look(self.shared.medium.as_ref(), clock.monotonic_ms());
        let group = writes.len();
        for write in writes {
            write.apply(&mut transaction)?;
        }
        let landing = transaction.finish()?;
        if landing.is_dirty {
            self.unsure.extend(landing.changed.keys());
            self.unsure_batches.extend(landing.effects.batch_news.keys());
            let begun_us = clock.monotonic_us();
            writing.commit()?;
            let took_us = clock.monotonic_us().saturating_sub(begun_us);
            self.shared.meter().record(Measurement::Committed { writes: group, took_us });
            self.unsure.clear();
            self.unsure_batches.clear();
            self.is_settled = quick;
            self.land(landing);
        }
        Ok(())
    }

    /// The commit is on disk: what it changed is now so in memory too, and whoever waits for it hears of it.
    fn land(&mut self, landing: Landing) {
        for (job, held) in landing.changed {
            match held {
                Some(held) => self.leases.insert(job, held),
                None => self.leases.remove(&job),
            };
        }
        let effects = landing.effects;
        match self.shared.meter.get() {
            Some(meter) => effects.tally.tell(&**meter),
            // The first is recovery's: no other write is taken before the store is open.
            None => drop(self.shared.untold().get_or_insert(effects.tally)),
        }
        self.shared.work.publish(landing.ready, effects.readied, landing.due_ms);
        for (job, seq) in effects.news {
            self.shared.watches.bump(job, seq);
        }
        for (batch, news) in effects.batch_news {
            self.shared.batch_watches.bump(batch, news);
        }
        for (stop, reason) in effects.stops {
            stop.cancel(reason);
        }
        if effects.has_mail {
            self.shared.bell.ring();
        }
    }

    /// A commit failed. It may have reached the disk or not, so the jobs that it touched lose their leases: after
    /// reopening they are read from disk and run again from there, and no worker repeats a write that had landed.
    fn break_off(&mut self, writes: &[Box<dyn Pending>]) {
        self.is_broken = true;
        self.unsure.extend(writes.iter().flat_map(|write| write.jobs()));
        for job in &self.unsure {
            if let Some(held) = self.leases.remove(job) {
                held.stop.cancel(CancelReason::LeaseLost);
            }
        }
    }

    fn heal(&mut self) -> Result<(), StoreError> {
        self.shared.handle.reopen(self.shared.medium.as_ref(), self.shared.options.cache_bytes)?;
        self.is_settled = false;
        self.recover(Cause::Disk)?;
        self.is_broken = false;
        tracing::info!("the store takes writes again");
        for job in std::mem::take(&mut self.unsure) {
            // Readers of a job whose news cannot be read now are woken by its next event.
            if let Ok(seq) = self.shared.handle.read(|reading| super::read::last_seq(reading, job)) {
                self.shared.watches.bump(job, seq);
            }
        }
        for batch in std::mem::take(&mut self.unsure_batches) {
            if let Ok(news) = self.shared.handle.read(|reading| super::batch_read::news(reading, batch)) {
                self.shared.batch_watches.bump(batch, news);
            }
        }
        Ok(())
    }

    fn recover(&mut self, cause: Cause) -> Result<(), StoreError> {
        let (recover, ticket) = pend(Recover(cause));
        drop(ticket);
        let quick = self.shared.medium.bytes() > SMALL_FILE_BYTES;
        self.commit(&mut [recover], quick)?;
        let (ready, due_ms) = self.shared.handle.read(super::read::queue)?;
        self.shared.work.publish(ready, ready, due_ms);
        Ok(())
    }

    /// Silence: a share of retention's work, if it is time. What it wants to be told of, it tells.
    fn sweep_if_due(&mut self) {
        if self.is_broken || !self.sweeper.is_due(self.shared.clock.monotonic_ms()) {
            return;
        }
        let sweep = self.sweeper.look(moment(&*self.shared.clock));
        let (sweep, more) = pend(sweep);
        self.write(vec![sweep], true);
        if more.wait() == Ok(true) {
            self.sweeper.hurry(self.shared.clock.monotonic_ms());
        }
    }

    /// Silence: one commit that makes the next open quick.
    fn settle(&mut self) {
        if !self.is_settled && !self.is_broken {
            let (beat, ticket) = pend(Probe);
            drop(ticket);
            self.write(vec![beat], true);
            // Tried once: a disk that refuses is the next write's to report.
            self.is_settled = true;
        }
    }
}

fn moment(clock: &dyn Clock) -> Moment {
    Moment { wall_ms: clock.now_ms(), monotonic_ms: clock.monotonic_ms() }
}

fn settle_all(writes: Vec<Box<dyn Pending>>, verdict: &Result<(), StoreError>) {
    for write in writes {
        write.settle(verdict.clone());
    }
}
