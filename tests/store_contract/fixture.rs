//! A store in its own directory with shortcuts for submitting and claiming jobs.

use crate::support::store::ManualClock;
use nanoclaw::domain::event::FailureCode;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::ports::{Clock, Lease, Measurement, Meter, NewJob, Store};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::{OpenError, RedbStore};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A store with its file and its clock.
pub(crate) struct Fixture {
    pub(crate) store: Arc<RedbStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) dir: TempDir,
}

impl Fixture {
    /// An empty store with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(&Limits::default())
    }

    /// An empty store with these limits.
    pub(crate) fn with(limits: &Limits) -> Self {
        let (clock, dir) = (ManualClock::new(), TempDir::new().unwrap());
        let store = open(&dir.path().join("store.redb"), limits, Arc::clone(&clock)).unwrap();
        Self { store, clock, dir }
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("store.redb")
    }

    /// The store after a crash now: opens a copy of the file.
    pub(crate) fn crash(&self) -> Self {
        self.crash_with(&Limits::default())
    }

    /// Like `crash`, with other limits.
    pub(crate) fn crash_with(&self, limits: &Limits) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("store.redb");
        std::fs::copy(self.path(), &path).unwrap();
        let store = open(&path, limits, Arc::clone(&self.clock)).unwrap();
        Self { store, clock: Arc::clone(&self.clock), dir }
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

/// Opens a file. The store settles late: `Fixture::crash` copies the file, and a copy that is made while a
/// commit writes is no image of a crash.
pub(crate) fn open(
    path: &std::path::Path,
    limits: &Limits,
    clock: Arc<ManualClock>,
) -> Result<Arc<RedbStore>, OpenError> {
    let options = StoreOptions { settle_ms: 500, ..StoreOptions::default() };
    RedbStore::open(path, &options, limits, clock as Arc<dyn Clock>)
}

/// The job ends that a store reports to its meter: failure code and run time.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<Vec<(Option<FailureCode>, Option<u64>)>>);

impl Ends {
    /// Records the ends of this store, including those of its recovery.
    pub(crate) fn of(store: &RedbStore) -> Arc<Self> {
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
