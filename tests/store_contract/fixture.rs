//! A store in a directory of its own, and the shortest way through a job's life.

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
    /// An empty one with the default limits.
    pub(crate) fn new() -> Self {
        Self::with(&Limits::default())
    }

    /// An empty one.
    pub(crate) fn with(limits: &Limits) -> Self {
        let (clock, dir) = (ManualClock::new(), TempDir::new().unwrap());
        let store = open(&dir.path().join("store.redb"), limits, Arc::clone(&clock)).unwrap();
        Self { store, clock, dir }
    }

    /// The file.
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("store.redb")
    }

    /// What a process finds that starts after this one was killed now: a copy of the file, opened.
    pub(crate) fn crash(&self) -> Self {
        self.crash_with(&Limits::default())
    }

    /// The same with other limits.
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

    /// Leases one job, which must be there.
    pub(crate) fn claim(&self) -> Lease {
        self.store.claim(1).wait().unwrap().pop().expect("a ready job")
    }

    /// The ids of all jobs that are ready, in queue order; they are leased by that.
    pub(crate) fn claim_all(&self) -> Vec<JobId> {
        self.store.claim(10_000).wait().unwrap().iter().map(|lease| lease.job.id).collect()
    }
}

/// Opens a file.
pub(crate) fn open(
    path: &std::path::Path,
    limits: &Limits,
    clock: Arc<ManualClock>,
) -> Result<Arc<RedbStore>, OpenError> {
    RedbStore::open(path, &StoreOptions::default(), limits, clock as Arc<dyn Clock>)
}

/// The ends that a store tells of: why it is no success, and how long the job ran.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<Vec<(Option<FailureCode>, Option<u64>)>>);

impl Ends {
    /// Those of this store, and of its recovery.
    pub(crate) fn of(store: &RedbStore) -> Arc<Self> {
        let ends = Arc::new(Self::default());
        store.set_meter(Arc::clone(&ends) as Arc<dyn Meter>);
        ends
    }

    /// What was told so far.
    pub(crate) fn told(&self) -> Vec<(Option<FailureCode>, Option<u64>)> {
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
