//! What keeps the data of the simulated server, and the faults between it and one process.

use super::clock::SimClock;
use super::disk_faults::{DiskFaults, End, IoFault};
use super::world::{Flaw, World};
use crate::support::database::{self, Schema};
use crate::support::disk::{Disk, DiskHook, Syncs};
use crate::support::sql_proxy::{DatabaseFault, SqlProxy};
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::secret::Secret;
use nanoclaw::ports::{Clock, NodeStore};
use nanoclaw::store::options::{RetentionOptions, StoreOptions};
use nanoclaw::store::postgres::{PostgresOptions, PostgresStore};
use nanoclaw::store::{RedbStore, RetentionAge};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Longer than any world runs without a clock leap.
const KEYS_KEPT_S: u64 = 30 * 24 * 3_600;
/// Longer than any world runs: the world ends the lease of a dead process.
const LEASE: Duration = Duration::from_secs(3_600);
/// Faults of one kind in a row.
const IN_A_ROW: u64 = 3;

/// Which store a world has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    File,
    Database,
}

/// What a process leaves to the next one.
pub(crate) enum StoreImage {
    File(Vec<u8>),
    Database(Arc<Schema>),
}

/// The faults of one process, and where its data is.
pub(crate) enum ProcessFaults {
    Disk { disk: Disk, faults: Arc<DiskFaults> },
    Database { proxy: SqlProxy, schema: Arc<Schema>, name: String, flaw: Flaw },
}

impl StoreImage {
    /// An empty store.
    pub(crate) fn empty(world: &World) -> Self {
        static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
        if world.kind == StoreKind::Database {
            return Self::Database(Arc::new(database::schema().unwrap()));
        }
        let empty = EMPTY.get_or_init(|| {
            let disk = Disk::with(Vec::new(), Syncs::Hold, None);
            open_file(world, &disk).unwrap().close();
            disk.content()
        });
        Self::File(empty.clone())
    }
}

impl ProcessFaults {
    /// The faults of the next process.
    pub(crate) fn new(world: &World, image: StoreImage) -> Self {
        match image {
            StoreImage::File(image) => {
                let faults = Arc::new(DiskFaults::new(world.roll(u64::MAX)));
                let syncs = if world.flaw == Flaw::LyingDisk { Syncs::Lie } else { Syncs::Hold };
                let hook = Arc::clone(&faults) as Arc<dyn DiskHook>;
                Self::Disk { disk: Disk::with(image, syncs, Some(hook)), faults }
            }
            StoreImage::Database(schema) => {
                static COUNT: AtomicU64 = AtomicU64::new(0);
                let name = format!("process_{}", COUNT.fetch_add(1, Ordering::SeqCst));
                Self::Database { proxy: SqlProxy::start(&schema), schema, name, flaw: world.flaw }
            }
        }
    }

    /// Opens the store.
    pub(crate) fn open(&self, world: &World) -> Result<Arc<dyn NodeStore>, String> {
        match self {
            Self::Disk { disk, .. } => {
                let store = open_file(world, disk).map_err(|error| error.to_string())?;
                Ok(store as Arc<dyn NodeStore>)
            }
            Self::Database { proxy, schema, name, .. } => {
                let database = PostgresOptions {
                    audit_entries: 1_000,
                    is_pooled: false,
                    url: Secret::from(proxy.url(schema)),
                    node_name: name.clone(),
                    lease: LEASE,
                    connections: 4,
                    uses_database_time: false,
                };
                let opened = proxy.strike_during(|| {
                    PostgresStore::open(&database, &options_of(world), &limits(), clock(world))
                });
                Ok(opened.map_err(|error| error.to_string())? as Arc<dyn NodeStore>)
            }
        }
    }

    /// Runs `work` of the process. Its statements may meet faults; disks have theirs at any time.
    pub(crate) fn strike_during<T>(&self, work: impl FnOnce() -> T) -> T {
        match self {
            Self::Disk { .. } => work(),
            Self::Database { proxy, .. } => proxy.strike_during(work),
        }
    }

    /// Ends the process now.
    pub(crate) fn end(&self, end: End) {
        match self {
            Self::Disk { disk, faults } => faults.end(disk, end),
            Self::Database { proxy, .. } => proxy.end(),
        }
    }

    /// Ends the process after this many operations of its disk, or statements.
    pub(crate) fn end_after(&self, operations: u64, end: End) {
        match self {
            Self::Disk { faults, .. } => faults.end_after(operations, end),
            Self::Database { proxy, .. } => proxy.end_after(operations, end == End::PowerLoss),
        }
    }

    /// Schedules a fault, unless others are scheduled. Returns whether it did.
    pub(crate) fn schedule(&self, fault: IoFault) -> bool {
        match self {
            Self::Disk { faults, .. } => faults.schedule_fault(fault),
            Self::Database { proxy, flaw, .. } => {
                let kind = match fault.count {
                    _ if *flaw == Flaw::LyingDatabase => DatabaseFault::Lie,
                    1 | 2 => DatabaseFault::LostReply,
                    3 => DatabaseFault::CutCommit,
                    4 | 5 => DatabaseFault::Cut,
                    6 | 7 => DatabaseFault::Conflict,
                    _ => DatabaseFault::Slow,
                };
                proxy.plan(fault.after, if fault.is_full { IN_A_ROW } else { 1 }, kind)
            }
        }
    }

    /// Cancels all further faults.
    pub(crate) fn calm(&self) {
        match self {
            Self::Disk { faults, .. } => faults.calm(),
            Self::Database { proxy, .. } => proxy.calm(),
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        match self {
            Self::Disk { faults, .. } => faults.is_dead(),
            Self::Database { proxy, .. } => proxy.is_dead(),
        }
    }

    /// What the process leaves to the next one, now that its store is closed.
    pub(crate) fn image(&self) -> StoreImage {
        match self {
            Self::Disk { disk, faults } => StoreImage::File(faults.image().unwrap_or_else(|| disk.content())),
            Self::Database { proxy, schema, name, .. } => {
                proxy.close();
                end_lease(schema, name);
                StoreImage::Database(Arc::clone(schema))
            }
        }
    }
}

/// Waits for the end of the process's transactions, then ends its lease in place of the time.
fn end_lease(schema: &Schema, name: &str) {
    let past = "clock_timestamp() - interval '1 second'";
    schema.sql(&format!(
        "DO $$ BEGIN WHILE EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'nanoclaw {name}') \
         LOOP PERFORM pg_sleep(0.001); PERFORM pg_stat_clear_snapshot(); END LOOP; \
         IF to_regclass('deliveries') IS NOT NULL THEN \
         UPDATE nodes SET lease_until = {past}; UPDATE deliveries SET taken_until = {past}; END IF; END $$"
    ));
}

fn open_file(world: &World, disk: &Disk) -> Result<Arc<RedbStore>, nanoclaw::store::OpenError> {
    let disk = disk.clone();
    RedbStore::open_with_backend(move || disk.clone(), &options_of(world), &limits(), clock(world))
}

fn clock(world: &World) -> Arc<dyn Clock> {
    Arc::<SimClock>::clone(&world.clock)
}

fn limits() -> Limits {
    Limits { idempotency_s: KEYS_KEPT_S, ..Limits::default() }
}

fn options_of(world: &World) -> StoreOptions {
    // Nothing is folded, so seen events never change.
    let retention = RetentionOptions { deltas: RetentionAge::Forever, ..RetentionOptions::default() };
    let linger_ms = u64::from(world.lingers());
    StoreOptions { settle_ms: 3_600_000, linger_ms, retention, ..StoreOptions::default() }
}
