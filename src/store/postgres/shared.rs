//! What the threads of one node share: connections, leases, and the wake-ups of readers and workers.

use crate::domain::id::{BatchId, JobId};
use crate::domain::log_chain::LogSigningKey;
use crate::ports::{CancelReason, CatalogueSource, Clock, Measurement, Meter, SharedDirState, StoreError};
use crate::store::change_watches::ChangeWatches;
use crate::store::commit_metrics::CommitMetrics;
use crate::store::delivery_notify::DeliveryNotify;
use crate::store::disk_limits::DiskLimits;
use crate::store::job_removals::JobRemovals;
use crate::store::limits::StoreLimits;
use crate::store::options::StoreOptions;
use crate::store::postgres::accounts::quota_room::QuotaRooms;
use crate::store::postgres::jobs::unfinished::UnfinishedEstimate;
use crate::store::postgres::last_beat::{LastBeat, Silence};
use crate::store::postgres::next_due::NextDue;
use crate::store::postgres::node::NodeLease;
use crate::store::postgres::options::PostgresOptions;
use crate::store::postgres::pool::Connections;
use crate::store::postgres::providers::KnownProviders;
use crate::store::postgres::session::SqlSession;
use crate::store::postgres::writer::announcement::Announcement;
use crate::store::postgres::writer::commit_marks::CommitMarks;
use crate::store::postgres::writer::effects::CommitEffects;
use crate::store::queue_length::QueueLength;
use crate::store::rows::clock_trust::{ClockReading, ClockTrust, StoredClock};
use crate::store::rows::lease::Leases;
use crate::store::slow_commits::{CommitTiming, SlowCommits};
use crate::store::waiting_claims::{PublishedQueue, WaitingClaims};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// Maximum commits whose counts wait for a meter: a server sets it soon.
const MAX_UNREPORTED: usize = 64;

/// The state of one node.
pub(crate) struct PostgresShared {
    pub(crate) connections: Connections,
    pub(crate) database: PostgresOptions,
    pub(crate) options: StoreOptions,
    pub(crate) limits: StoreLimits,
    pub(crate) clock: Arc<dyn Clock>,
    /// The database's wall clock minus this node's, milliseconds.
    pub(crate) clock_offset_ms: AtomicI64,
    /// Whether the database's clock can be trusted.
    pub(crate) clock_trust: ClockTrust,
    /// The same of this node's clock.
    node_clock_trust: ClockTrust,
    /// Locked for reading during each write that is not of jobs.
    pub(crate) other_writes: RwLock<()>,
    /// The channel of notifications.
    pub(crate) channel: String,
    pub(crate) node: NodeLease,
    last_beat: Mutex<LastBeat>,
    /// Whether the database hangs.
    pub(crate) silence: Silence,
    /// What the digests of this node's catalogues come from.
    pub(crate) catalogue: OnceLock<Arc<dyn CatalogueSource>>,
    pub(crate) providers: Arc<KnownProviders>,
    /// Leads to the thread of the writes of jobs.
    wake: Box<dyn Fn() + Send + Sync>,
    leases: Mutex<Leases>,
    pub(crate) watches: ChangeWatches<JobId>,
    pub(crate) batch_watches: ChangeWatches<BatchId>,
    pub(crate) claims: WaitingClaims,
    /// Rises with each hint that a job may be ready.
    pub(crate) ready_hints: AtomicU64,
    pub(crate) deliveries: DeliveryNotify,
    pub(crate) job_removals: JobRemovals,
    pub(crate) meter: OnceLock<Arc<dyn Meter>>,
    /// Signs what retention does to logs.
    pub(crate) log_key: OnceLock<LogSigningKey>,
    /// Counts from before the meter was set: those of the jobs that were taken over at the start.
    unreported: Mutex<Vec<CommitMetrics>>,
    pub(crate) unfinished: UnfinishedEstimate,
    pub(crate) commit_marks: CommitMarks,
    /// The next delayed job.
    pub(crate) due_jobs: NextDue,
    /// The next end of a job by its deadline, its expiry or a failed predecessor.
    pub(crate) due_ends: NextDue,
    /// The next run of a schedule.
    pub(crate) due_schedules: NextDue,
    is_closing: AtomicBool,
    pub(crate) quota_rooms: QuotaRooms,
    /// The directory that the nodes share, if this node has one.
    pub(crate) shared_dir: OnceLock<Arc<dyn SharedDirState>>,
    /// Why this node needs a newer version, once it has met a log that it cannot read.
    pub(crate) outdated: OnceLock<String>,
    disk_limits: DiskLimits,
    slow_commits: Mutex<SlowCommits>,
    /// The store of this node is closed.
    is_closed: AtomicBool,
}

/// The parts of [`PostgresShared`] that are known before it exists.
pub(crate) struct SharedParts {
    pub(crate) connections: Connections,
    pub(crate) database: PostgresOptions,
    pub(crate) options: StoreOptions,
    pub(crate) limits: StoreLimits,
    pub(crate) disk_limits: DiskLimits,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) channel: String,
    pub(crate) node: NodeLease,
    /// Makes the thread of the writes of jobs look at the queue.
    pub(crate) wake: Box<dyn Fn() + Send + Sync>,
}

impl PostgresShared {
    pub(crate) fn new(parts: SharedParts) -> Self {
        let SharedParts { connections, database, options, limits, disk_limits, clock, channel, node, wake } =
            parts;
        let slow_commits = Mutex::new(SlowCommits::new(options.slow_commit_ms));
        let reading = ClockReading::of(&*clock);
        let now_ms = clock.monotonic_ms();
        let last_beat = LastBeat { renewed_ms: now_ms, answered_ms: now_ms, ..LastBeat::default() };
        let providers = Arc::new(KnownProviders::new(Arc::clone(&clock)));
        Self {
            connections,
            database,
            options,
            limits,
            clock,
            clock_offset_ms: AtomicI64::new(0),
            clock_trust: ClockTrust::new(reading),
            node_clock_trust: ClockTrust::new(reading),
            other_writes: RwLock::default(),
            channel,
            node,
            last_beat: Mutex::new(last_beat),
            silence: Silence::default(),
            catalogue: OnceLock::new(),
            providers,
            wake,
            leases: Mutex::default(),
            watches: ChangeWatches::default(),
            batch_watches: ChangeWatches::default(),
            claims: WaitingClaims::default(),
            ready_hints: AtomicU64::new(0),
            deliveries: DeliveryNotify::default(),
            job_removals: JobRemovals::default(),
            meter: OnceLock::new(),
            log_key: OnceLock::new(),
            unreported: Mutex::default(),
            unfinished: UnfinishedEstimate::default(),
            commit_marks: CommitMarks::default(),
            due_jobs: NextDue::default(),
            due_ends: NextDue::default(),
            due_schedules: NextDue::default(),
            is_closing: AtomicBool::new(false),
            quota_rooms: QuotaRooms::default(),
            shared_dir: OnceLock::new(),
            outdated: OnceLock::new(),
            disk_limits,
            slow_commits,
            is_closed: AtomicBool::new(false),
        }
    }

    /// The time that all nodes share, unix milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.shared_time_ms(self.clock.now_ms())
    }

    /// A time of this node's clock as a time that all nodes share, unix milliseconds.
    pub(crate) fn shared_time_ms(&self, node_ms: u64) -> u64 {
        node_ms.saturating_add_signed(self.clock_offset_ms.load(Ordering::Relaxed))
    }

    /// A time that all nodes share as a time of this node's clock, unix milliseconds.
    pub(crate) fn node_time_ms(&self, shared_ms: u64) -> u64 {
        shared_ms.saturating_add_signed(self.clock_offset_ms.load(Ordering::Relaxed).saturating_neg())
    }

    /// Learns the database's clock.
    pub(crate) fn set_database_time(&self, database_ms: u64) {
        if self.database.uses_database_time {
            let offset_ms = i128::from(database_ms).saturating_sub(i128::from(self.clock.now_ms()));
            self.clock_offset_ms.store(i64::try_from(offset_ms).unwrap_or_default(), Ordering::Relaxed);
        }
        self.clock_trust.check(self.database_reading(database_ms));
        self.node_clock_trust.check(ClockReading::of(&*self.clock));
    }

    /// Learns the database's clock when the store opens; `stored` is from the last turn of retention.
    pub(crate) fn resume_clock(&self, database_ms: u64, stored: StoredClock) {
        self.clock_trust.resume(self.database_reading(database_ms), stored);
        self.set_database_time(database_ms);
    }

    /// The time that all nodes share, and this node's monotonic clock.
    pub(crate) fn database_reading(&self, database_ms: u64) -> ClockReading {
        let reading = ClockReading::of(&*self.clock);
        if self.database.uses_database_time {
            ClockReading { wall_ms: database_ms, ..reading }
        } else {
            reading
        }
    }

    /// Whether neither clock has jumped: the database's, as of the last heartbeat, and this node's.
    pub(crate) fn is_clock_trusted(&self) -> bool {
        let reading = ClockReading::of(&*self.clock);
        self.node_clock_trust.check(reading) == 0 && self.clock_trust.distrust_ms(reading.monotonic_ms) == 0
    }

    /// What the last heartbeats have found.
    pub(crate) fn last_beat(&self) -> MutexGuard<'_, LastBeat> {
        self.last_beat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a measurement, if a server has set its meter.
    pub(crate) fn measure(&self, measurement: Measurement<'_>) {
        if let Some(meter) = self.meter.get() {
            meter.record(measurement);
        }
    }

    /// Logs a commit that took too long.
    pub(crate) fn watch_commit(&self, timed: CommitTiming) {
        self.slow_commits.lock().unwrap_or_else(PoisonError::into_inner).watch(timed, || None);
    }

    /// Why this node takes no jobs now: it could not read their logs, or they would miss the files of the
    /// others.
    pub(crate) fn claim_refusal(&self) -> Option<String> {
        self.outdated.get().cloned().or_else(|| self.shared_dir.get()?.fault())
    }

    /// The error for work that adds so many bytes of files when the disk of the shared directory is nearly
    /// full.
    pub(crate) fn low_disk(&self, planned_bytes: u64) -> Option<StoreError> {
        self.disk_limits.check(self.shared_dir.get()?.space()?, planned_bytes).err()
    }

    /// The leases of this node.
    pub(crate) fn leases(&self) -> MutexGuard<'_, Leases> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancels everything that this node runs: others may run it by now.
    pub(crate) fn lose_leases(&self) {
        self.end_leases(CancelReason::LeaseLost);
    }

    fn end_leases(&self, reason: CancelReason) {
        for (job, leased) in self.leases().drain() {
            leased.cancel.cancel(reason);
            // A request that waits for its end asks the database from now on.
            self.watches.touch(job);
        }
    }

    /// Cancels these jobs, if they run here.
    pub(crate) fn cancel_leases(&self, jobs: &[JobId]) {
        let leases = self.leases();
        for leased in jobs.iter().filter_map(|job| leases.get(job)) {
            leased.cancel.cancel(CancelReason::Cancelled);
        }
    }

    /// The store closes: writes do not wait any longer for a database that is away.
    pub(crate) fn begin_close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    /// Whether the store closes.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    /// The store is closed: later reads fail, and what still runs is cancelled.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.end_leases(CancelReason::Shutdown);
    }

    /// Sets the meter and reports the earlier counts to it. Only the first meter is used.
    pub(crate) fn set_meter(&self, meter: Arc<dyn Meter>) {
        let meter = self.meter.get_or_init(|| meter);
        let unreported = std::mem::take(&mut *self.unreported.lock().unwrap_or_else(PoisonError::into_inner));
        for metrics in unreported {
            metrics.report(&**meter);
        }
    }

    fn report(&self, metrics: CommitMetrics) {
        let mut unreported = self.unreported.lock().unwrap_or_else(PoisonError::into_inner);
        match self.meter.get() {
            Some(meter) => {
                drop(unreported);
                metrics.report(&**meter);
            }
            None if unreported.len() < MAX_UNREPORTED => unreported.push(metrics),
            None => {}
        }
    }

    /// Runs `reader` with a connection of its own, and once more if that connection was lost: the database
    /// may have started again meanwhile. Fails soon while the database hangs. Blocks.
    pub(crate) fn read<T>(
        &self,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(StoreError::Closed);
        }
        self.read_on(&self.connections, reader)
    }

    /// The same on these connections.
    pub(crate) fn read_on<T>(
        &self,
        connections: &Connections,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut found = Err(StoreError::Unreachable);
        let is_silent = {
            let reading = pin!(async { found = connections.read(reader).await });
            self.drive(connections, reading)
        };
        if is_silent {
            connections.close_idle();
        }
        found
    }

    /// Blocks until this has ended, or until the database hangs; returns whether it does. One copy for all
    /// readers: what drives a future is large.
    fn drive(&self, connections: &Connections, work: Pin<&mut (dyn Future<Output = ()> + '_)>) -> bool {
        connections.wait(self.silence.unless_silent(work)).is_none()
    }

    /// Applies the effects of a commit of this node.
    pub(crate) fn apply(&self, effects: CommitEffects) {
        self.hear(&effects.announcement);
        if effects.has_changed_schedule {
            self.due_schedules.forget();
        }
        self.unfinished.add(effects.unfinished);
        self.report(effects.metrics);
    }

    /// Wakes those who wait for these changes.
    pub(crate) fn hear(&self, announcement: &Announcement) {
        for (job, seq) in &announcement.jobs {
            self.watches.bump(*job, *seq);
        }
        for (batch, change) in &announcement.batches {
            self.batch_watches.bump(*batch, *change);
        }
        self.cancel_leases(&announcement.cancelled);
        if announcement.queue.has_delayed_job {
            self.due_jobs.forget();
        }
        if announcement.queue.has_job_end {
            self.due_ends.forget();
        }
        self.job_removals.publish(announcement.removed_jobs.clone());
        if announcement.queue.has_ready_job {
            self.hint_ready();
        }
        if announcement.has_due_delivery {
            self.deliveries.notify();
        }
    }

    /// A job may be ready: the next claim looks.
    pub(crate) fn hint_ready(&self) {
        self.ready_hints.fetch_add(1, Ordering::SeqCst);
        self.publish_queue(1, None);
    }

    /// Makes the thread of the writes of jobs serve the waiting claims.
    pub(crate) fn wake_job_writer(&self) {
        (self.wake)();
    }

    /// Tells waiting claims what a look at the queue has found that has seen so many hints.
    pub(crate) fn publish_look(&self, ready: u64, due_ms: Option<u64>, hints: u64) {
        self.publish_queue(ready, due_ms);
        // Published first, read second: a hint in between is not overwritten.
        if self.ready_hints.load(Ordering::SeqCst) != hints {
            self.publish_queue(1, due_ms);
        }
    }

    /// Tells waiting claims whether a look at the queue may find a job.
    fn publish_queue(&self, ready: u64, due_ms: Option<u64>) {
        let length = QueueLength { ready, due_ms, unfinished: self.unfinished.jobs() };
        self.claims.publish(PublishedQueue { length, ..PublishedQueue::default() });
    }
}
