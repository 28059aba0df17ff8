//! Opens and closes the store, and hands writes to the writer thread.

use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::ports::{Clock, Meter, StoreError, Ticket, Urgency};
use crate::store::change_watches::ChangeWatches;
use crate::store::delivery_notify::DeliveryNotify;
use crate::store::disk_limits::DiskLimits;
use crate::store::job_removals::JobRemovals;
use crate::store::limits::StoreLimits;
use crate::store::mark_store;
use crate::store::options::StoreOptions;
use crate::store::port_error::PortError;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::table::ReadableTable;
use crate::store::redb::codec::tables::QUARANTINE;
use crate::store::redb::file::error::OpenError;
use crate::store::redb::file::handle::DatabaseHandle;
use crate::store::redb::file::medium::{BackendMedium, FileMedium, Medium};
use crate::store::redb::file::open::{is_full, open_with_retry, refused};
use crate::store::redb::file::{compaction, migration};
use crate::store::redb::volatile::table::VolatileJobs;
use crate::store::redb::writer::group::WriterRequest;
use crate::store::redb::writer::linger::Linger;
use crate::store::redb::writer::shared::{StoreShared, WriteBacklog, WriterLoss, WriterLossCause};
use crate::store::redb::writer::thread::WriterThread;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::redb::writer::write::{WriteOptions, queued_write};
use crate::store::rows::clock_trust::{ClockReading, ClockTrust};
use crate::store::waiting_claims::WaitingClaims;
use redb::StorageBackend;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The store of one server.
pub struct RedbStore {
    pub(crate) shared: Arc<StoreShared>,
    channel: SyncSender<WriterRequest>,
    pub(crate) writer: Mutex<Option<JoinHandle<()>>>,
}

impl RedbStore {
    /// Opens the file, creates it when it is missing, and recovers what a crash left running.
    pub fn open(
        path: &Path,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        // redb trusts its pages, so a damaged one may cause a panic, which counts as damage.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let medium = FileMedium::new(path, options.new_store);
            let is_new = medium.create_if_missing().map_err(|error| refused(path, error))?;
            let open = || Self::open_medium(Box::new(medium), path, (options, limits), clock);
            if is_new { mark_and_open(path, open) } else { open().inspect(|_| mark(path)) }
        }));
        let reason = "it is damaged; restore a backup, or move it away and start anew".to_owned();
        opened.unwrap_or_else(|_| Err(OpenError::Unusable { path: path.to_owned(), reason }))
    }

    /// Opens the backend that `make` creates. Calls `make` again whenever the store reopens after an I/O
    /// error.
    pub fn open_with_backend<B: StorageBackend>(
        make: impl Fn() -> B + Send + Sync + 'static,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        Self::open_medium(Box::new(BackendMedium(make)), Path::new("(made)"), (options, limits), clock)
    }

    /// Sets the meter and reports the counts of recovery to it. Only the first meter is used.
    pub fn set_meter(&self, meter: Arc<dyn Meter>) {
        self.shared.set_meter(meter);
    }

    /// Calls `act` when the writer has ended although nobody closed the store: it panicked again and again,
    /// or the file cannot be opened any more. Only a restart of the process heals that.
    pub fn on_writer_loss(&self, act: impl FnOnce(WriterLossCause) + Send + 'static) {
        self.shared.writer_loss.on_loss(Box::new(act));
    }

    /// Blocks until jobs are deleted, until [`RedbStore::wake_removal_waiter`], or until the timeout has
    /// passed. Returns the deleted jobs, each once; a crash or a long queue may lose some.
    pub fn wait_for_removed_jobs(&self, timeout: Duration) -> Vec<(UserId, JobId)> {
        self.shared.job_removals.wait(timeout)
    }

    /// Ends the current or the next [`RedbStore::wait_for_removed_jobs`].
    pub fn wake_removal_waiter(&self) {
        self.shared.job_removals.wake();
    }

    /// Whether the wall clock can be trusted. After a jump by more than an hour it is distrusted for a day,
    /// because everything looks old.
    pub fn is_clock_trusted(&self) -> bool {
        self.shared.clock_trust.check(ClockReading::of(&*self.shared.clock)) == 0
    }

    /// The error for new work when the disk is nearly full. Checks now, without the writer.
    pub fn low_disk(&self) -> Option<StoreError> {
        self.shared.mark.check(self.shared.medium.space()?, 0).err()
    }

    /// What is damaged in the store, as far as it was read.
    pub fn damage(&self) -> Option<String> {
        let places = Some(self.shared.damage.count()).filter(|places| *places > 0)?;
        let example = self.shared.damage.example().map_or_else(String::new, |place| format!(" ({place})"));
        Some(format!(
            "{places} damaged places were found in the store{example}: requests that need them fail with the code \
             damaged_data"
        ))
    }

    /// A store in memory, for tests of other modules.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: Arc<dyn Clock>) -> Arc<Self> {
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let made = Self::open_with_backend(redb::backends::InMemoryBackend::new, &options, &limits, clock);
        made.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Finishes the queued writes, settles the file and ends the writer. Later writes and reads return
    /// [`StoreError::Closed`]. Blocks. A second call does nothing.
    pub fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // Both fail only if the writer has ended already.
            drop(self.channel.send(WriterRequest::Close));
            self.shared.linger.end();
            drop(writer.join());
        }
    }

    fn open_medium(
        medium: Box<dyn Medium>,
        path: &Path,
        (options, limits): (&StoreOptions, &Limits),
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        let unusable = |e: StoreError| OpenError::Unusable { path: path.to_owned(), reason: e.to_string() };
        let handle = open_handle(medium.as_ref(), path, options.cache_bytes, clock.as_ref())?;
        let (channel, requests) = sync_channel(options.channel_writes.max(1));
        let shared = Arc::new(StoreShared {
            medium,
            handle,
            options: options.clone(),
            bounds: StoreLimits::new(limits, options),
            mark: DiskLimits::from(limits),
            clock_trust: ClockTrust::new(ClockReading::of(&*clock)),
            damage: Arc::default(),
            clock,
            backlog: WriteBacklog::default(),
            watches: ChangeWatches::default(),
            batch_watches: ChangeWatches::default(),
            claims: WaitingClaims::default(),
            volatile: VolatileJobs::default(),
            linger: Linger::default(),
            deliveries: DeliveryNotify::default(),
            job_removals: JobRemovals::default(),
            meter: OnceLock::new(),
            log_key: OnceLock::new(),
            unreported: Mutex::default(),
            writer_loss: WriterLoss::default(),
        });
        let writer = WriterThread::start(Arc::clone(&shared)).map_err(unusable)?;
        let set_aside = shared.read(|reading| QUARANTINE.read(reading)?.len()).map_err(unusable)?;
        shared.damage.count_set_aside(set_aside);
        let thread =
            std::thread::Builder::new().name("store".to_owned()).spawn(move || writer.run(&requests));
        let thread = thread.map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Arc::new(Self { shared, channel, writer: Mutex::new(Some(thread)) }))
    }

    /// Runs `reader` on the committed state.
    pub(crate) fn read<T>(
        &self,
        reader: impl FnOnce(&ReadTransaction) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.shared.read(reader)
    }

    /// For clients: fails when the channel is full.
    pub(crate) fn offer<T: Send + 'static, E: PortError>(
        &self,
        options: WriteOptions,
        change: impl Fn(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        if !self.shared.backlog.has_room(options.weight) {
            return Ticket::resolved(Err(StoreError::Busy.into()));
        }
        self.send(options, change, |channel, request| {
            channel.try_send(request).map_err(|refusal| match refusal {
                TrySendError::Full(_) => StoreError::Busy,
                TrySendError::Disconnected(_) => StoreError::Closed,
            })
        })
    }

    /// For workers: waits while the channel is full.
    pub(crate) fn push<T: Send + 'static, E: PortError>(
        &self,
        options: WriteOptions,
        change: impl Fn(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        self.send(options, change, |channel, request| channel.send(request).map_err(|_| StoreError::Closed))
    }

    /// Makes the writer serve the waiting claims.
    pub(crate) fn wake_writer(&self) {
        // A writer that has ended has failed the claims.
        drop(self.channel.send(WriterRequest::Claims));
        self.shared.linger.end();
    }

    fn send<T: Send + 'static, E: PortError>(
        &self,
        options: WriteOptions,
        change: impl Fn(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
        send: impl FnOnce(&SyncSender<WriterRequest>, WriterRequest) -> Result<(), StoreError>,
    ) -> Ticket<T, E> {
        let (weight, urgency) = (options.weight, options.urgency);
        let (pending, ticket) = queued_write(options, change);
        self.shared.backlog.enter(weight);
        if let Err(error) = send(&self.channel, WriterRequest::Write(pending)) {
            self.shared.backlog.leave(weight);
            return Ticket::resolved(Err(error.into()));
        }
        let gathered = if urgency == Urgency::Now { usize::MAX } else { self.shared.backlog.weight() };
        self.shared.linger.end_for(gathered);
        ticket
    }
}

/// Opens a new store and marks its directory meanwhile, because both wait for the disk.
fn mark_and_open<T>(path: &Path, open: impl FnOnce() -> Result<T, OpenError>) -> Result<T, OpenError> {
    std::thread::scope(|scope| {
        let marking = std::thread::Builder::new().spawn_scoped(scope, || mark(path));
        let opened = open();
        // Without a thread it takes its turn.
        if marking.is_err() {
            mark(path);
        }
        opened
    })
}

fn mark(path: &Path) {
    if let Err(error) = mark_store(path) {
        tracing::warn!(%error, "cannot write the file that says that this directory has a store");
    }
}

/// Opens the database. On a full disk it is open for reads only.
fn open_handle(
    medium: &dyn Medium,
    path: &Path,
    cache_bytes: usize,
    clock: &dyn Clock,
) -> Result<DatabaseHandle, OpenError> {
    match open_with_retry(medium, cache_bytes) {
        Err(error) if is_full(&error) => {
            tracing::error!(%error, "the disk is full; the store is open for reads only until there is room");
            let database = medium.open_for_reading(cache_bytes).map_err(|e| refused(path, e))?;
            if !migration::is_current(&database, path)? {
                return Err(refused(path, error));
            }
            Ok(DatabaseHandle::read_only(database, StoreError::Full))
        }
        opened => {
            let database = opened.map_err(|e| refused(path, e))?;
            migration::prepare(&database, medium, path)?;
            let database = compaction::compact_if_worth(database, medium, cache_bytes, clock);
            Ok(DatabaseHandle::new(database.map_err(|e| refused(path, e))?))
        }
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::message::Message;
    use crate::domain::{id::JobId, job::JobSpec};
    use crate::ports::DiskSpace;
    use crate::ports::{NewJob, Store};
    use redb::{Database, DatabaseError};
    use std::io::{self, ErrorKind};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A file on a disk that may be full: redb cannot open it for writing.
    struct FullDisk(FileMedium, Arc<AtomicBool>);

    impl FullDisk {
        fn check(&self) -> io::Result<()> {
            if self.1.load(Ordering::SeqCst) { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
        }
    }

    impl Medium for FullDisk {
        fn takes_writes(&self) -> io::Result<()> {
            self.check()
        }
        fn open(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
            self.check()?;
            self.0.open(cache_bytes)
        }
        fn open_for_reading(&self, cache_bytes: usize) -> Result<Database, DatabaseError> {
            self.0.open_for_reading(cache_bytes)
        }
        fn space(&self) -> Option<DiskSpace> {
            None
        }
        fn bytes(&self) -> u64 {
            self.0.bytes()
        }
    }

    fn job(number: u128) -> Vec<NewJob> {
        let spec = JobSpec::new("demo".to_owned(), vec![Message::user("hello".to_owned())], 15, 60);
        vec![NewJob {
            id: JobId::from_bits(number),
            user: UserId(1),
            created_at_ms: 1,
            spec,
            in_existing: false,
        }]
    }

    #[test]
    fn p1_a_store_that_was_not_closed_is_read_on_a_full_disk_and_written_when_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let (first, path) = (dir.path().join("first.redb"), dir.path().join("store.redb"));
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let store = RedbStore::open(&first, &options, &limits, Arc::clone(&clock)).unwrap();
        for number in 1..50 {
            store.submit(job(number)).wait().unwrap();
        }
        assert_eq!(store.claim(1).wait().unwrap().len(), 1, "one runs");
        std::fs::copy(&first, &path).unwrap();
        let before = std::fs::read(&path).unwrap();
        let is_full = Arc::new(AtomicBool::new(true));
        let medium = Box::new(FullDisk(FileMedium::new(&path, false), Arc::clone(&is_full)));
        let store = RedbStore::open_medium(medium, &path, (&options, &limits), clock).unwrap();
        for number in 1..50 {
            assert!(store.job(UserId(1), JobId::from_bits(number)).unwrap().is_some());
        }
        for number in 50..53 {
            assert_eq!(store.submit(job(number)).wait(), Err(StoreError::Full.into()));
        }
        assert_eq!(std::fs::read(&path).unwrap(), before, "the file is not written");
        is_full.store(false, Ordering::SeqCst);
        store.submit(job(60)).wait().unwrap();
        let running = store.claim(100).wait().unwrap();
        assert_eq!(running.len(), 50, "recovery has queued the interrupted job");
        assert_eq!(running.iter().filter(|lease| lease.job.crashes == 1).count(), 1);
    }
}
