//! The embedded store on redb: one file, one writer thread, readers beside it. Owns how a job lies on disk; refuses
//! everything that is not behind [`Store`].
//!
//! The way of a write: an `Act` goes through the bounded channel (`group`), joins a group, is applied to one open
//! `transaction` (tables and copies of what is in memory), and the `writer` commits, fsyncs, and only then settles the
//! tickets and wakes readers (`watches`) and workers (`work`).

mod accounts;
mod act;
mod append;
mod approve;
mod backup;
mod batch_fill;
mod batch_forget;
mod batch_read;
mod batch_row;
mod batch_run;
mod batches;
mod bell;
mod beside;
mod cancel;
mod census;
mod children;
mod claim;
mod compact;
mod conversation_delete;
mod conversation_keys;
mod conversation_read;
mod conversation_row;
mod conversation_waste;
mod conversations;
mod defer;
mod delete;
mod delete_message;
mod error;
mod exchange;
mod finish;
mod fold;
mod forget;
mod group;
mod history;
mod hours;
mod keys;
mod layout;
mod lease;
mod load;
mod log;
mod mail;
mod medium;
mod messages;
mod migrate;
mod once;
mod opening;
mod outbox;
mod postpone;
mod probe;
mod project_keys;
mod project_read;
mod projects;
mod quarantine;
mod queue;
mod read;
mod recover;
mod regenerate;
mod release;
mod restore;
mod results;
mod retention;
mod retry;
mod row;
mod schedule;
mod schedule_keys;
mod schedule_read;
mod schema;
mod slow;
mod spawn;
mod submit;
mod summary;
mod sweeper;
mod table;
mod tally;
mod token_write;
mod transaction;
mod unfinished;
mod user_keys;
mod user_write;
mod users;
mod value;
mod watches;
mod watermark;
mod work;
mod writer;

pub use self::backup::backup_closed;
pub use self::error::OpenError;
pub use self::layout::{LAYOUT, Sight, layout};
pub use self::restore::restore;

use self::act::{Act, pend};
use self::group::Request;
use self::medium::{Handle, InFile, Made, Medium};
use self::transaction::Bounds;
use self::watermark::Mark;
use self::writer::{Shared, Writer};
use super::options::StoreOptions;
use super::{Glance, glance};
use crate::domain::approval::ApprovalDecision;
use crate::domain::event::Record;
use crate::domain::id::{JobId, UserId};
use crate::domain::idempotency::IdempotencyKey;
use crate::domain::job::{History, Job, JobOutcome};
use crate::domain::limits::Limits;
use crate::domain::tool::ToolCall;
use crate::ports::{
    CancelToken, Clock, EventPage, Fence, Idempotent, JobPage, JobQuery, Lease, Meter, NewJob, Store,
    StoreError, Ticket, Urgency,
};
use redb::{Database, DatabaseError, StorageBackend};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// How often a locked file is tried, and the pause between two tries.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The store of one server.
pub struct RedbStore {
    shared: Arc<Shared>,
    channel: SyncSender<Request>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl RedbStore {
    /// Opens the file, creates it when it is missing, and recovers what a crash left running.
    pub fn open(
        path: &Path,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        // redb trusts its pages: what it meets in a damaged one may be a panic, which is an answer, too.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            Self::open_medium(Box::new(InFile(path.to_owned())), path, (options, limits), clock)
        }));
        let reason = "it is damaged; restore a backup, or move it away and start anew".to_owned();
        opened.unwrap_or_else(|_| Err(OpenError::Unusable { path: path.to_owned(), reason }))
    }

    /// Opens whatever `make` makes, and makes it anew each time the store has to reopen after an I/O error.
    pub fn open_with_backend<B: StorageBackend>(
        make: impl Fn() -> B + Send + Sync + 'static,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        Self::open_medium(Box::new(Made(make)), Path::new("(made)"), (options, limits), clock)
    }

    /// Whoever shall hear what happens from now on, and what ended as the store recovered; the first one stays.
    pub fn tell(&self, meter: Arc<dyn Meter>) {
        self.shared.tell(meter);
    }

    /// A store that is gone with its last owner, for tests of other rooms.
    #[cfg(test)]
    pub(crate) fn in_memory(clock: Arc<dyn Clock>) -> Arc<Self> {
        let (options, limits) = (StoreOptions::default(), Limits::default());
        let made = Self::open_with_backend(redb::backends::InMemoryBackend::new, &options, &limits, clock);
        made.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// Writes what was asked for before, settles the file and ends the writer. Later writes and reads answer
    /// [`StoreError::Closed`]. Blocks; closing twice is one close.
    pub fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // Both fail only if the writer is gone already.
            drop(self.channel.send(Request::Close));
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
        medium.provide().map_err(|e| refused(path, e))?;
        let database = open_patiently(medium.as_ref(), options.cache_bytes).map_err(|e| refused(path, e))?;
        migrate::prepare(&database, medium.as_ref(), path)?;
        let database =
            compact::compact_if_worth(database, medium.as_ref(), options.cache_bytes, clock.as_ref())
                .map_err(|e| refused(path, e))?;
        let (channel, requests) = sync_channel(options.channel_writes.max(1));
        let shared = Arc::new(Shared {
            medium,
            handle: Handle::new(database),
            options: options.clone(),
            bounds: Bounds::from(limits),
            mark: Mark::from(limits),
            clock,
            backlog: group::Backlog::default(),
            watches: watches::Watches::default(),
            batch_watches: watches::Watches::default(),
            work: work::Work::default(),
            bell: bell::Bell::default(),
            meter: OnceLock::new(),
            untold: Mutex::default(),
        });
        let writer = Writer::start(Arc::clone(&shared)).map_err(unusable)?;
        let thread =
            std::thread::Builder::new().name("store".to_owned()).spawn(move || writer.run(&requests));
        let thread = thread.map_err(|source| OpenError::Io { path: path.to_owned(), source })?;
        Ok(Arc::new(Self { shared, channel, writer: Mutex::new(Some(thread)) }))
    }

    /// For requests of clients: they hear that the store is busy rather than wait.
    fn offer<A: Act>(&self, act: A) -> Ticket<A::Out> {
        let weight = act.weight();
        if !self.shared.backlog.has_room(weight) {
            return Ticket::refused(StoreError::Busy);
        }
        let (pending, ticket) = pend(act);
        self.shared.backlog.enter(weight);
        let Err(refusal) = self.channel.try_send(Request::Write(pending)) else { return ticket };
        self.shared.backlog.leave(weight);
        match refusal {
            TrySendError::Full(_) => Ticket::refused(StoreError::Busy),
            TrySendError::Disconnected(_) => Ticket::refused(StoreError::Closed),
        }
    }

    /// For workers: a full channel slows them down.
    fn push<A: Act>(&self, act: A) -> Ticket<A::Out> {
        let weight = act.weight();
        let (pending, ticket) = pend(act);
        self.shared.backlog.enter(weight);
        if self.channel.send(Request::Write(pending)).is_ok() {
            return ticket;
        }
        self.shared.backlog.leave(weight);
        Ticket::refused(StoreError::Closed)
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl From<&Limits> for Bounds {
    fn from(limits: &Limits) -> Self {
        Self {
            queue_jobs: limits.queue_jobs,
            crashes: limits.crashes,
            history_bytes: limits.history_bytes,
            accounts: limits.accounts,
            conversations: limits.conversations,
            ageing_ms: limits.queue_ageing_s.saturating_mul(1_000),
            idempotency_ms: limits.idempotency_s.saturating_mul(1_000),
        }
    }
}

/// Opens the file; one that is locked is tried again for a while. A predecessor that was killed in the moment of starting
/// a program leaves its lock to that program until it has begun.
fn open_patiently(medium: &dyn Medium, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let mut tries = LOCK_TRIES;
    loop {
        match medium.open(cache_bytes) {
            Err(DatabaseError::DatabaseAlreadyOpen) if tries > 1 => std::thread::park_timeout(LOCK_PAUSE),
            outcome => return outcome,
        }
        tries -= 1;
    }
}

fn refused(path: &Path, error: DatabaseError) -> OpenError {
    let path = path.to_owned();
    match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked { path },
        DatabaseError::Storage(redb::StorageError::Io(source)) => OpenError::Io { path, source },
        other => OpenError::Unusable { path, reason: other.to_string() },
    }
}

impl Store for RedbStore {
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>> {
        self.offer(submit::Submit(jobs))
    }

    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>> {
        self.offer(once::SubmitOnce { job, key })
    }

    fn claim(&self, max: usize) -> Ticket<Vec<Lease>> {
        // An empty queue costs no commit, not even a message to the writer.
        if max == 0 || !self.shared.work.is_there(self.shared.clock.now_ms()) {
            let (caller, ticket) = Ticket::new();
            drop(caller.send(Ok(Vec::new())));
            return ticket;
        }
        self.push(claim::Claim(max))
    }

    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<()> {
        self.push(append::Append { fence, records, urgency })
    }

    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<()> {
        self.push(finish::Finish { fence, records, ending })
    }

    fn release(&self, fence: Fence) -> Ticket<()> {
        self.push(release::Release(fence))
    }

    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()> {
        self.push(postpone::Postpone { fence, reason, delay_ms })
    }

    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<()> {
        self.push(defer::Defer { fence, reason, delay_ms })
    }

    fn wait_for_approval(&self, fence: Fence, calls: Vec<ToolCall>, timeout_ms: u64) -> Ticket<()> {
        self.push(approve::AwaitApproval { fence, calls, timeout_ms })
    }

    fn decide(&self, user: UserId, job: JobId, decision: ApprovalDecision) -> Ticket<Option<Job>> {
        self.offer(approve::Decide { user, job, decision })
    }

    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool> {
        self.offer(delete::Delete { user, job })
    }

    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>> {
        self.offer(retry::Retry { user, job })
    }

    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>> {
        self.offer(cancel::Cancel { user, job })
    }

    fn probe(&self) -> Ticket<()> {
        self.offer(probe::Probe)
    }

    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        let row = self.shared.handle.read(|reading| read::row(reading, job))?;
        Ok(row.map(|row| row.job).filter(|job| job.user == user))
    }

    fn output(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.shared.handle.read(|reading| read::output(reading, job))
    }

    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        self.shared.handle.read(|reading| read::jobs(reading, query))
    }

    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError> {
        let now_ms = self.shared.clock.now_ms();
        self.shared.handle.read(|reading| once::is_known(reading, user, key, now_ms))
    }

    fn unfinished_count(&self, user: UserId, most: u64) -> Result<u64, StoreError> {
        self.shared.handle.read(|reading| read::unfinished_count(reading, user, most))
    }

    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError> {
        self.shared.handle.read(|reading| read::events(reading, job, after, max))
    }

    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError> {
        self.shared.handle.read(|reading| read::step_text(reading, job, first_seq, up_to))
    }

    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError> {
        self.shared.handle.read(|reading| read::log(reading, job))
    }

    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError> {
        let room = history::Room { messages: max, bytes: self.shared.bounds.history_bytes };
        self.shared.handle.read(|reading| history::history(reading, job.id, room))
    }

    fn watch(&self, job: JobId) -> watch::Receiver<u64> {
        let receiver = self.shared.watches.subscribe(job);
        // Subscribed first, read second: a commit in between is seen by one or the other. A failed read costs only
        // the first hint; the reader's own read will say what is wrong.
        if let Ok(seq) = self.shared.handle.read(|reading| read::last_seq(reading, job)) {
            self.shared.watches.bump(job, seq);
        }
        receiver
    }

    fn wait_for_work(&self, stop: &CancelToken, timeout: Duration) {
        self.shared.work.wait(stop, timeout, || self.shared.clock.now_ms());
    }
}
