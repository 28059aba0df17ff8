//! A store of its own with shortcuts for submitting and claiming jobs. `NANOCLAW_TEST_STORE=postgres` runs
//! the tests on `PostgreSQL`; those of files stay on files.

use crate::support::database::{self, Schema};
use crate::support::store::{ManualClock, check_stored_bytes};
use nanoclaw::domain::event::FailureCode;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::secret::Secret;
use nanoclaw::ports::{Clock, Lease, Measurement, Meter, NewJob, NodeStore};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::postgres::{PostgresOptions, PostgresStore};
use nanoclaw::store::{OpenError, RedbStore, check_database};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// A store with its place and its clock.
pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn NodeStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) place: StorePlace,
    file: Option<Arc<RedbStore>>,
}

/// Where a store is.
#[derive(Clone)]
pub(crate) enum StorePlace {
    /// The file `store.redb` in a directory.
    File(Arc<TempDir>),
    /// A schema of a database.
    Database(Arc<Schema>),
}

impl Fixture {
    /// An empty store with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(&Limits::default())
    }

    /// An empty store with these limits.
    pub(crate) fn with(limits: &Limits) -> Self {
        Self::with_options(&options(), limits)
    }

    /// An empty store with these options and limits.
    pub(crate) fn with_options(options: &StoreOptions, limits: &Limits) -> Self {
        Self::at(StorePlace::fresh(), options, limits, ManualClock::new())
    }

    /// An empty store in a file, whichever store the other tests use.
    pub(crate) fn file() -> Self {
        Self::file_with(&Limits::default())
    }

    /// The same with these limits.
    pub(crate) fn file_with(limits: &Limits) -> Self {
        Self::at(StorePlace::file(), &options(), limits, ManualClock::new())
    }

    /// The same with these options.
    pub(crate) fn file_with_options(options: &StoreOptions) -> Self {
        Self::at(StorePlace::file(), options, &Limits::default(), ManualClock::new())
    }

    fn at(place: StorePlace, options: &StoreOptions, limits: &Limits, clock: Arc<ManualClock>) -> Self {
        let (store, file) = place.open_any(options, limits, Arc::clone(&clock) as Arc<dyn Clock>);
        Self { store, clock, place, file }
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path()
    }

    /// The store with what only a file has.
    pub(crate) fn file_store(&self) -> &RedbStore {
        self.file.as_ref().expect("this test needs Fixture::file")
    }

    /// The directory of the file.
    pub(crate) fn dir(&self) -> PathBuf {
        self.path().parent().unwrap().to_owned()
    }

    /// The store after a crash now.
    pub(crate) fn crash(&self) -> Self {
        self.crash_with(&Limits::default())
    }

    /// Like `crash`, with other limits. Opens a copy of the file; in a database another node takes over.
    pub(crate) fn crash_with(&self, limits: &Limits) -> Self {
        Self::at(self.place.after_crash(), &options(), limits, Arc::clone(&self.clock))
    }

    /// Closes the store and opens it again with these options and limits.
    pub(crate) fn reopen(&mut self, options: &StoreOptions, limits: &Limits) {
        self.store.close();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        (self.store, self.file) = self.place.open_any(options, limits, clock);
    }

    /// Stores these jobs.
    pub(crate) fn submit(&self, jobs: impl IntoIterator<Item = NewJob>) {
        for job in jobs {
            self.store.submit(vec![job]).wait().unwrap();
        }
    }

    /// Claims one job, which must exist.
    pub(crate) fn claim(&self) -> Lease {
        self.store.claim(1).wait().unwrap().pop().expect("a ready job")
    }

    /// Claims all ready jobs; returns their ids in queue order.
    pub(crate) fn claim_all(&self) -> Vec<JobId> {
        self.store.claim(10_000).wait().unwrap().iter().map(|lease| lease.job.id).collect()
    }
}

impl StorePlace {
    /// A place without a store, of the kind that the tests use.
    pub(crate) fn fresh() -> Self {
        let database = if database::is_wanted() { database::schema() } else { None };
        match database {
            Some(schema) => Self::Database(Arc::new(schema)),
            None => Self::file(),
        }
    }

    /// A file in a directory of its own.
    pub(crate) fn file() -> Self {
        Self::File(Arc::new(TempDir::new().unwrap()))
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::File(directory) => directory.path().join("store.redb"),
            Self::Database(_) => panic!("this test needs Fixture::file"),
        }
    }

    /// The place as a crash of the process leaves it now: a copy of the file, or a database in which the
    /// lease of the node has ended.
    pub(crate) fn after_crash(&self) -> Self {
        match self {
            Self::File(original) => {
                let directory = TempDir::new().unwrap();
                std::fs::copy(original.path().join("store.redb"), directory.path().join("store.redb"))
                    .unwrap();
                Self::File(Arc::new(directory))
            }
            Self::Database(schema) => {
                schema.sql(
                    "UPDATE nodes SET lease_until = clock_timestamp() - interval '1 second'; \
                     UPDATE deliveries SET taken_until = clock_timestamp() - interval '1 second'",
                );
                self.clone()
            }
        }
    }

    /// Compares all counts of users in the closed store with what they count.
    pub(crate) fn check_counts(&self) -> Result<(), String> {
        let checked = match self {
            Self::File(_) => return check_stored_bytes(std::fs::read(self.path()).unwrap()).map(drop),
            Self::Database(schema) => check_database(&Secret::from(schema.url())).unwrap(),
        };
        if checked.damaged == 0 { Ok(()) } else { Err(checked.to_string()) }
    }

    /// Opens the store in this place.
    pub(crate) fn open(
        &self,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> Arc<dyn NodeStore> {
        self.open_any(options, limits, clock).0
    }

    /// The same, also as the store of a file.
    fn open_any(
        &self,
        options: &StoreOptions,
        limits: &Limits,
        clock: Arc<dyn Clock>,
    ) -> (Arc<dyn NodeStore>, Option<Arc<RedbStore>>) {
        match self {
            Self::File(directory) => {
                let path = directory.path().join("store.redb");
                let store = RedbStore::open(&path, options, limits, clock).unwrap();
                (Arc::<RedbStore>::clone(&store), Some(store))
            }
            Self::Database(schema) => {
                let database = PostgresOptions {
                    is_pooled: database::is_pooled(),
                    url: Secret::from(schema.url()),
                    node_name: "test".to_owned(),
                    lease: Duration::from_secs(15),
                    connections: 6,
                    audit_entries: 20,
                    uses_database_time: false,
                };
                (PostgresStore::open(&database, options, limits, clock).unwrap(), None)
            }
        }
    }
}

/// The store settles late: `Fixture::crash` copies the file, and a copy that is made while a commit writes is
/// no image of a crash.
pub(crate) fn options() -> StoreOptions {
    StoreOptions { settle_ms: 500, ..StoreOptions::default() }
}

/// Opens a file.
pub(crate) fn open(
    path: &Path,
    limits: &Limits,
    clock: Arc<ManualClock>,
) -> Result<Arc<RedbStore>, OpenError> {
    RedbStore::open(path, &options(), limits, clock as Arc<dyn Clock>)
}

/// The job ends that a store reports to its meter: failure code and run time.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<Vec<(Option<FailureCode>, Option<u64>)>>);

impl Ends {
    /// Records the ends of this store, including those of its recovery.
    pub(crate) fn of(store: &Arc<dyn NodeStore>) -> Arc<Self> {
        let ends = Arc::new(Self::default());
        store.set_meter(Arc::clone(&ends) as Arc<dyn Meter>);
        ends
    }

    /// The ends so far.
    pub(crate) fn recorded(&self) -> Vec<(Option<FailureCode>, Option<u64>)> {
        self.0.lock().unwrap().clone()
    }
}

impl Meter for Ends {
    fn record(&self, sample: Measurement<'_>) {
        if let Measurement::Ended { code, ran_us, .. } = sample {
            self.0.lock().unwrap().push((code, ran_us));
        }
    }
}
