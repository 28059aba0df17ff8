//! The tables of the file and the version of their layout. Owns their names and types; refuses a newer file.

use super::keys::{DelayedBytes, FairBytes, JobBytes, LogBytes, OwnerBytes, ReadyBytes, TurnBytes};
use super::value;
use crate::ports::StoreError;
use redb::{Database, ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use serde::{Deserialize, Serialize};

/// The layout that this build reads and writes. A change of layout raises it and adds a migration.
pub(super) const VERSION: u64 = 1;

const META_SCHEMA: &str = "schema";
const META_COUNTERS: &str = "counters";

type Bytes = &'static [u8];

/// Schema version, counters, and the beat of commits that change nothing else.
pub(super) const META: TableDefinition<'static, &'static str, Bytes> = TableDefinition::new("meta");
/// How jobs stand: [`super::row::Row`].
pub(super) const JOBS: TableDefinition<'static, &'static JobBytes, Bytes> = TableDefinition::new("jobs");
/// What was asked; written once.
pub(super) const SPECS: TableDefinition<'static, &'static JobBytes, Bytes> = TableDefinition::new("specs");
/// What was answered; written once.
pub(super) const OUTPUTS: TableDefinition<'static, &'static JobBytes, Bytes> =
    TableDefinition::new("outputs");
/// Events and marks.
pub(super) const LOG: TableDefinition<'static, &'static LogBytes, Bytes> = TableDefinition::new("log");
/// Jobs by owner, state and acceptance.
pub(super) const OWNED: TableDefinition<'static, &'static OwnerBytes, &'static JobBytes> =
    TableDefinition::new("owned");
/// Jobs that may run now, in the order in which they shall.
pub(super) const READY: TableDefinition<'static, &'static ReadyBytes, &'static JobBytes> =
    TableDefinition::new("ready");
/// Jobs that wait for their time.
pub(super) const DELAYED: TableDefinition<'static, &'static DelayedBytes, &'static JobBytes> =
    TableDefinition::new("delayed");
/// Jobs that a worker holds: all that recovery has to look at.
pub(super) const RUNNING: TableDefinition<'static, &'static JobBytes, ()> = TableDefinition::new("running");
/// Unfinished jobs of a conversation in order of acceptance.
pub(super) const LINES: TableDefinition<'static, &'static TurnBytes, &'static JobBytes> =
    TableDefinition::new("lines");
/// What a conversation's ended jobs said.
pub(super) const TURNS: TableDefinition<'static, &'static TurnBytes, Bytes> = TableDefinition::new("turns");
/// The newest fair time of a user inside a priority.
pub(super) const FAIR: TableDefinition<'static, &'static FairBytes, u64> = TableDefinition::new("fair");

/// Numbers that belong to the whole store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    /// The newest acceptance number.
    pub(super) accept: u64,
    /// Jobs that have not ended.
    pub(super) unfinished: u64,
    /// The fair time of the job that each priority served last.
    pub(super) served: [u64; 10],
    /// Commits that had nothing else to write.
    pub(super) beat: u64,
}

/// What a file turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// Nothing in it yet.
    Empty,
    /// Of this version.
    Known(u64),
}

/// Looks at the file without changing it.
pub(super) fn inspect(database: &Database) -> Result<Layout, StoreError> {
    let reading = database.begin_read()?;
    let meta = match reading.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(Layout::Empty),
        Err(error) => return Err(error.into()),
    };
    match meta.get(META_SCHEMA)? {
        Some(version) => Ok(Layout::Known(value::decode(version.value())?)),
        None => Ok(Layout::Empty),
    }
}

/// All tables, open in one write transaction.
pub(super) struct Tables<'t> {
    /// For tables that few writes touch; they are opened when needed.
    pub(super) writing: &'t WriteTransaction,
    pub(super) meta: redb::Table<'t, &'static str, Bytes>,
    pub(super) jobs: redb::Table<'t, &'static JobBytes, Bytes>,
    pub(super) specs: redb::Table<'t, &'static JobBytes, Bytes>,
    pub(super) outputs: redb::Table<'t, &'static JobBytes, Bytes>,
    pub(super) log: redb::Table<'t, &'static LogBytes, Bytes>,
    pub(super) owned: redb::Table<'t, &'static OwnerBytes, &'static JobBytes>,
    pub(super) ready: redb::Table<'t, &'static ReadyBytes, &'static JobBytes>,
    pub(super) delayed: redb::Table<'t, &'static DelayedBytes, &'static JobBytes>,
    pub(super) running: redb::Table<'t, &'static JobBytes, ()>,
    pub(super) lines: redb::Table<'t, &'static TurnBytes, &'static JobBytes>,
    pub(super) turns: redb::Table<'t, &'static TurnBytes, Bytes>,
    pub(super) fair: redb::Table<'t, &'static FairBytes, u64>,
}

impl<'t> Tables<'t> {
    /// Opens them, creating those that are missing.
    pub(super) fn open(writing: &'t WriteTransaction) -> Result<Self, StoreError> {
        Ok(Self {
            writing,
            meta: writing.open_table(META)?,
            jobs: writing.open_table(JOBS)?,
            specs: writing.open_table(SPECS)?,
            outputs: writing.open_table(OUTPUTS)?,
            log: writing.open_table(LOG)?,
            owned: writing.open_table(OWNED)?,
            ready: writing.open_table(READY)?,
            delayed: writing.open_table(DELAYED)?,
            running: writing.open_table(RUNNING)?,
            lines: writing.open_table(LINES)?,
            turns: writing.open_table(TURNS)?,
            fair: writing.open_table(FAIR)?,
        })
    }

    /// Makes an empty file a store.
    pub(super) fn found(&mut self) -> Result<(), StoreError> {
        self.meta.insert(META_SCHEMA, value::encode(&VERSION)?.as_slice())?;
        self.store_counters(&Counters::default())
    }

    /// The counters as of the last commit.
    pub(super) fn load_counters(&self) -> Result<Counters, StoreError> {
        use redb::ReadableTable;
        match self.meta.get(META_COUNTERS)? {
            Some(bytes) => value::decode(bytes.value()),
            None => Ok(Counters::default()),
        }
    }

    /// Writes the counters.
    pub(super) fn store_counters(&mut self, counters: &Counters) -> Result<(), StoreError> {
        self.meta.insert(META_COUNTERS, value::encode(counters)?.as_slice())?;
        Ok(())
    }
}
