//! Opens and closes the store of a node, and hands writes to its threads.

use crate::domain::id::{JobId, UserId};
use crate::domain::limits::Limits;
use crate::ports::{Clock, Meter, StoreError, Ticket};
use crate::store::disk_limits::DiskLimits;
use crate::store::limits::StoreLimits;
use crate::store::options::StoreOptions;
use crate::store::port_error::PortError;
use crate::store::postgres::heartbeat::Heart;
use crate::store::postgres::listener::{listen, poll};
use crate::store::postgres::migrations::{UNFINISHED_TRANSFER, migrate};
use crate::store::postgres::next_due::NextDue;
use crate::store::postgres::node::NodeLease;
use crate::store::postgres::options::{HEARTBEAT_CONNECTIONS, PostgresOptions, WRITER_CONNECTIONS};
use crate::store::postgres::pool::Connections;
use crate::store::postgres::pool_error::{PoolError, describe};
use crate::store::postgres::retention::sweep::stored_clock;
use crate::store::postgres::session::{Columns, SqlSession};
use crate::store::postgres::shared::{PostgresShared, SharedParts};
use crate::store::postgres::sweeper::RetentionRunner;
use crate::store::postgres::writer::act::Act;
use crate::store::postgres::writer::thread::{JobWriter, OtherWriter, WriterRequest};
use crate::store::postgres::writer::write::{WriteOptions, queued_write};
use crate::store::rows::clock_trust::StoredClock;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads for writes that are not of jobs.
const OTHER_WRITERS: usize = 2;

/// Why the store of a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    /// The options are wrong, or the system refuses threads.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The database cannot be reached, or refuses.
    #[error("cannot use the database of store.url: {0}")]
    Database(String),
}

/// The store of one node.
pub struct PostgresStore {
    pub(crate) shared: Arc<PostgresShared>,
    jobs: SyncSender<WriterRequest>,
    others: SyncSender<WriterRequest>,
    retention: Arc<RetentionRunner>,
    ordered: SyncSender<WriterRequest>,
    threads: Mutex<Option<Threads>>,
    /// Where copies of the store are made.
    pub(crate) scratch: OnceLock<PathBuf>,
}

/// Where the threads of the writes get them from.
struct WriterQueues {
    jobs: Receiver<WriterRequest>,
    others: Receiver<WriterRequest>,
    ordered: Receiver<WriterRequest>,
    /// The connections of the thread of the writes of jobs.
    connections: Connections,
    /// The connection of the heartbeats.
    heartbeat: Connections,
}

struct Threads {
    writers: Vec<JoinHandle<()>>,
    heart: Heart,
    sweeper: JoinHandle<()>,
}

impl PostgresStore {
    /// Connects, makes missing tables, and begins the lease of this node.
    pub fn open(
        database: &PostgresOptions,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, PostgresOpenError> {
        let connections = Connections::shared(database)?;
        let node = NodeLease::default();
        let prepared = connections.wait(prepare(&connections, &node, database));
        let Prepared { channel, database_ms, stored_clock } =
            prepared.map_err(|error| PostgresOpenError::Database(error.to_string()))?;
        let (jobs, job_requests) = sync_channel(options.channel_writes.max(1));
        let (others, other_requests) = sync_channel(options.channel_writes.max(1));
        let (ordered, ordered_requests) = sync_channel(options.channel_writes.max(1));
        let queues = WriterQueues {
            jobs: job_requests,
            others: other_requests,
            ordered: ordered_requests,
            connections: Connections::of_one_thread(database, WRITER_CONNECTIONS)?,
            heartbeat: Connections::of_one_thread(database, HEARTBEAT_CONNECTIONS)?,
        };
        let shared = Arc::new(PostgresShared::new(SharedParts {
            connections,
            database: database.clone(),
            options: options.clone(),
            limits: StoreLimits::new(limits, options),
            disk_limits: DiskLimits::from(limits),
            clock,
            channel,
            node,
            wake: wake(jobs.clone()),
        }));
        shared.resume_clock(database_ms, stored_clock);
        let retention = Arc::new(RetentionRunner::new(Arc::clone(&shared), others.clone()));
        let threads = start(&shared, queues, &jobs, &retention).map_err(PoolError::Threads)?;
        let (io, hearing) = (shared.connections.handle(), Arc::downgrade(&shared));
        let _listener = if database.is_pooled { io.spawn(poll(hearing)) } else { io.spawn(listen(hearing)) };
        let (threads, scratch) = (Mutex::new(Some(threads)), OnceLock::new());
        let store = Arc::new(Self { shared, jobs, others, retention, ordered, threads, scratch });
        let prepared = store.write(async move |act: &mut Act<'_>| act.prepare_stored_bytes().await).wait();
        prepared.map_err(|error| PostgresOpenError::Database(error.to_string()))?;
        Ok(store)
    }

    /// Sets the directory in which copies of the store are made. Only the first one is used.
    pub fn set_scratch_directory(&self, directory: &Path) {
        self.scratch.get_or_init(|| directory.to_owned());
    }

    /// Sets the meter and reports the counts of the start to it. Only the first meter is used.
    pub fn set_meter(&self, meter: Arc<dyn Meter>) {
        self.shared.set_meter(meter);
    }

    /// Blocks until jobs are deleted, until [`PostgresStore::wake_removal_waiter`], or until the timeout has
    /// passed. Returns jobs that any node has deleted.
    pub fn wait_for_removed_jobs(&self, timeout: Duration) -> Vec<(UserId, JobId)> {
        self.shared.job_removals.wait(timeout)
    }

    /// Ends the current or the next [`PostgresStore::wait_for_removed_jobs`].
    pub fn wake_removal_waiter(&self) {
        self.shared.job_removals.wake();
    }

    /// Whether times can be compared with the clocks. False for a day after the database's clock or this
    /// node's has jumped.
    pub fn is_clock_trusted(&self) -> bool {
        self.shared.is_clock_trusted()
    }

    /// Applies retention now, unless a node has done so within the last minute. Blocks.
    pub fn run_retention(&self) -> Result<(), StoreError> {
        self.retention.run(true)
    }

    /// Finishes the queued writes and gives up the lease of this node. Blocks. A second call does nothing.
    pub fn close(&self) {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Threads { writers, heart, sweeper }) = threads else { return };
        self.shared.begin_close();
        // It waits for a writer.
        self.retention.stop();
        drop(sweeper.join());
        // All fail only if the threads have ended already.
        drop(self.jobs.send(WriterRequest::Close));
        drop(self.ordered.send(WriterRequest::Close));
        (0..OTHER_WRITERS).for_each(|_| drop(self.others.send(WriterRequest::Close)));
        for writer in writers {
            drop(writer.join());
        }
        heart.stop();
        self.shared.close();
        let unregister = async |session: &SqlSession<'_>| self.shared.node.unregister(session).await;
        let limit = self.shared.database.lease / 3;
        let ended = self.shared.connections.read_within(limit, unregister);
        if let Err(error) = ended {
            tracing::warn!(%error, "cannot give up the lease of this node; it ends by itself");
        }
    }

    /// Whether the writers run.
    pub(crate) fn has_writers(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.as_ref().is_some_and(|threads| !threads.writers.iter().any(JoinHandle::is_finished))
    }

    /// Runs `reader` on committed data.
    pub(crate) fn read<T>(
        &self,
        reader: impl AsyncFn(&SqlSession<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.shared.read(reader)
    }

    /// When the next of something is due, unix milliseconds, by the answer of this statement. Asks the
    /// database only if this node does not know.
    pub(crate) fn next_due(&self, due: &NextDue, sql: &str) -> Result<Option<u64>, StoreError> {
        let (now_ms, monotonic_ms) = (self.shared.now_ms(), self.shared.clock.monotonic_ms());
        let question = match due.known(now_ms, monotonic_ms) {
            Ok(due_ms) => return Ok(due_ms),
            Err(question) => question,
        };
        let due_ms =
            self.read(async |session: &SqlSession<'_>| session.one(sql, &[]).await?.optional_number(0))?;
        due.learn(question, due_ms);
        Ok(due_ms)
    }

    /// A write of a client that concerns jobs: fails when the channel is full or the database hangs.
    pub(crate) fn offer<T: Send + 'static, E: PortError>(
        &self,
        options: WriteOptions,
        change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        self.offer_to(&self.jobs, options, change)
    }

    /// A write of a worker: waits while the channel is full, and for a database that is away.
    pub(crate) fn push<T: Send + 'static, E: PortError>(
        &self,
        options: WriteOptions,
        change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        let (write, ticket) = queued_write(options.patient(), change);
        match self.jobs.send(WriterRequest::Write(write)) {
            Ok(()) => ticket,
            Err(_) => Ticket::resolved(Err(StoreError::Closed.into())),
        }
    }

    /// A write that concerns no lease: it has a transaction for itself.
    pub(crate) fn write<T: Send + 'static, E: PortError>(
        &self,
        change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        self.offer_to(&self.others, WriteOptions::default(), change)
    }

    /// Blocks until all writes are over that [`PostgresStore::write`] has queued so far.
    pub(crate) fn wait_for_other_writes(&self) -> Result<(), StoreError> {
        // Those before this one have left the queue.
        self.write(async |_: &mut Act<'_>| Ok::<(), StoreError>(())).wait()?;
        drop(self.shared.other_writes.write());
        Ok(())
    }

    /// The same for writes that apply in the order of their calls on this node.
    pub(crate) fn write_in_order<T: Send + 'static, E: PortError>(
        &self,
        change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        self.offer_to(&self.ordered, WriteOptions::default(), change)
    }

    fn offer_to<T: Send + 'static, E: PortError>(
        &self,
        channel: &SyncSender<WriterRequest>,
        options: WriteOptions,
        change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
    ) -> Ticket<T, E> {
        if self.shared.silence.is_silent() {
            return Ticket::resolved(Err(StoreError::Unreachable.into()));
        }
        let (write, ticket) = queued_write(options, change);
        let refusal = match channel.try_send(WriterRequest::Write(write)) {
            Ok(()) => return ticket,
            Err(TrySendError::Full(_)) => StoreError::Busy,
            Err(TrySendError::Disconnected(_)) => StoreError::Closed,
        };
        Ticket::resolved(Err(refusal.into()))
    }
}

/// What a node learns before it opens its store.
struct Prepared {
    /// The channel of notifications.
    channel: String,
    /// The time of the database, unix milliseconds.
    database_ms: u64,
    /// The clock at the last turn of retention.
    stored_clock: StoredClock,
}

/// Makes missing tables and begins the lease.
async fn prepare(
    connections: &Connections,
    node: &NodeLease,
    database: &PostgresOptions,
) -> Result<Prepared, StoreError> {
    let unreachable = |error: deadpool_postgres::PoolError| StoreError::Io(describe(&error));
    let mut client = connections.pool.get().await.map_err(unreachable)?;
    migrate(&mut client).await?;
    let session = connections.session(&client);
    // Several servers may share a database, each in its own schema.
    let channel = session.one("SELECT 'nanoclaw ' || current_schema()", &[]).await?.column(0)?;
    let database_ms = node.register(&session, database).await?;
    // A migration looks for nodes after it has begun, so one of both sees the other.
    let unfinished = session.row("SELECT FROM settings WHERE key = $1", &[&UNFINISHED_TRANSFER]).await?;
    if unfinished.is_some() {
        node.unregister(&session).await?;
        let reason = "'nanoclaw migrate' has not copied all rows into it yet: run that command again";
        return Err(StoreError::Io(reason.to_owned()));
    }
    let clock = session.row("SELECT value FROM settings WHERE key = 'retention'", &[]).await?;
    let clock = clock.map(|row| row.column::<String>(0)).transpose()?;
    Ok(Prepared { channel, database_ms, stored_clock: stored_clock(clock.as_deref()) })
}

fn start(
    shared: &Arc<PostgresShared>,
    queues: WriterQueues,
    jobs: &SyncSender<WriterRequest>,
    retention: &Arc<RetentionRunner>,
) -> std::io::Result<Threads> {
    let WriterQueues { jobs: job_requests, others: other_requests, ordered: ordered_requests, .. } = queues;
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let writer = JobWriter {
        shared: Arc::clone(shared),
        connections: queues.connections,
        last_commit_ms: shared.clock.monotonic_ms(),
        waiting: Vec::new(),
        takes_jobs: true,
        has_committed: true,
    };
    let mut writers = vec![thread("store").spawn(move || writer.run(&job_requests))?];
    let (ordered, ordered_requests) = (OtherWriter(Arc::clone(shared)), Mutex::new(ordered_requests));
    writers.push(thread("store-ordered").spawn(move || ordered.run(&ordered_requests))?);
    let other_requests = Arc::new(Mutex::new(other_requests));
    for _ in 0..OTHER_WRITERS {
        let (writer, requests) = (OtherWriter(Arc::clone(shared)), Arc::clone(&other_requests));
        writers.push(thread("store-other").spawn(move || writer.run(&requests))?);
    }
    let heart = Heart::start(Arc::clone(shared), queues.heartbeat, jobs.clone())?;
    Ok(Threads { writers, heart, sweeper: retention.start()? })
}

/// What makes the thread of the writes of jobs look at the queue.
fn wake(jobs: SyncSender<WriterRequest>) -> Box<dyn Fn() + Send + Sync> {
    // A full channel wakes it as well, and a thread that has ended has failed the claims.
    Box::new(move || drop(jobs.try_send(WriterRequest::Claims)))
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}
