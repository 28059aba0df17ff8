//! A store in a schema of its own, and further nodes on it.

use crate::support::database::{self, Schema};
use crate::support::store::ManualClock;
use nanoclaw::domain::id::JobId;
use nanoclaw::domain::limits::Limits;
use nanoclaw::domain::secret::Secret;
use nanoclaw::ports::{Clock, Lease, NewJob, Store};
use nanoclaw::store::options::StoreOptions;
use nanoclaw::store::postgres::{PostgresOptions, PostgresStore};
use std::sync::Arc;
use std::time::Duration;

/// A node with its store and its clock.
pub(super) struct Fixture {
    pub(super) store: Arc<PostgresStore>,
    pub(super) clock: Arc<ManualClock>,
    schema: Arc<Schema>,
}

impl Fixture {
    /// An empty store; `None` without `PostgreSQL`.
    pub(super) fn new() -> Option<Self> {
        Self::with(&Limits::default())
    }

    /// An empty store with these limits.
    pub(super) fn with(limits: &Limits) -> Option<Self> {
        Self::with_options(limits, &StoreOptions::default())
    }

    /// An empty store with these limits and options.
    pub(super) fn with_options(limits: &Limits, options: &StoreOptions) -> Option<Self> {
        let (clock, schema) = (ManualClock::new(), Arc::new(database::schema()?));
        Some(Self { store: open(&schema, options, limits, &clock), clock, schema })
    }

    /// Another node on the same database.
    pub(super) fn beside(&self) -> Self {
        let store = open(&self.schema, &StoreOptions::default(), &Limits::default(), &self.clock);
        Self { store, clock: Arc::clone(&self.clock), schema: Arc::clone(&self.schema) }
    }

    /// The node that takes over after a crash of this one.
    pub(super) fn crash(&self) -> Self {
        let gone = "clock_timestamp() - interval '1 second'";
        self.sql(&format!(
            "UPDATE nodes SET lease_until = {gone}; UPDATE deliveries SET taken_until = {gone}"
        ));
        self.beside()
    }

    /// Another store on the same database, with these options.
    pub(super) fn reopen(&self, options: &StoreOptions) -> Arc<PostgresStore> {
        open(&self.schema, options, &Limits::default(), &self.clock)
    }

    /// Claims all ready jobs.
    pub(super) fn claim_all(&self) -> Vec<JobId> {
        self.store.claim(10_000).wait().unwrap().iter().map(|lease| lease.job.id).collect()
    }

    /// The output of statements in the schema.
    pub(super) fn sql(&self, statements: &str) -> String {
        self.schema.sql(statements)
    }

    /// Stores these jobs.
    pub(super) fn submit(&self, jobs: impl IntoIterator<Item = NewJob>) {
        for job in jobs {
            self.store.submit(vec![job]).wait().unwrap();
        }
    }

    /// Claims one job, which must exist.
    pub(super) fn claim(&self) -> Lease {
        self.store.claim(1).wait().unwrap().pop().expect("a ready job")
    }
}

fn open(
    schema: &Schema,
    options: &StoreOptions,
    limits: &Limits,
    clock: &Arc<ManualClock>,
) -> Arc<PostgresStore> {
    let database = PostgresOptions {
        url: Secret::from(schema.url()),
        node_name: "test".to_owned(),
        lease: Duration::from_secs(15),
        is_pooled: database::is_pooled(),
        connections: 6,
        audit_entries: 20,
        uses_database_time: false,
    };
    PostgresStore::open(&database, options, limits, Arc::clone(clock) as Arc<dyn Clock>).unwrap()
}
