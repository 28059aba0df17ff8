//! The tables of the file and the version of their layout. Owns their names and types; refuses a newer file.

use super::beside::BesideBytes;
use super::keys::{
    BatchBytes, DelayedBytes, EndedBytes, FairBytes, JobBytes, LineBytes, LogBytes, OnceBytes, OnceDueBytes,
    OwnedBatchBytes, OwnerBytes, ReadyBytes, TurnBytes, UsageBytes, WaitingBytes,
};
use super::mail::{DeliveryBytes, DeliveryOwnerBytes, DeliveryTimeBytes};
use super::project_keys::{ProjectBytes, ProjectOwnerBytes};
use super::schedule_keys::{ScheduleBytes, ScheduleDueBytes, ScheduleOwnerBytes};
use super::table::{Definition, ReadableTable, Table};
use super::user_keys::{AccountBytes, FoundBytes, TokenBytes};
use super::value;
use crate::ports::StoreError;
use redb::{ReadTransaction, ReadableDatabase, TableError, TableHandle, WriteTransaction};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The layout that this build reads and writes. A change of layout raises it and adds a migration
/// ([`super::migrate`]); a table that is merely new needs neither.
pub(super) const VERSION: u64 = 1;

pub(super) const META_SCHEMA: &str = "schema";
const META_COUNTERS: &str = "counters";

type Bytes = &'static [u8];

/// The counters as of the last commit; those of an empty file are zero.
pub(super) fn counters(reading: &ReadTransaction) -> Result<Counters, StoreError> {
    match META.read(reading)?.get(META_COUNTERS)? {
        Some(bytes) => value::decode(bytes.value()),
        None => Ok(Counters::default()),
    }
}

/// The one list of tables: their definitions, [`Tables`], and [`NAMES`] come from it, so that no table can be forgotten by a
/// backup.
macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident $DEFINITION:ident: $key:ty => $value:ty;)*) => {
        $($(#[$doc])*
        pub(super) const $DEFINITION: Definition<$key, $value> = Definition::new(stringify!($field));)*

        /// What they are called.
        pub(super) const NAMES: &[&str] = &[$(stringify!($field)),*];

        /// All tables of one write transaction; each opens when it is first used.
        pub(super) struct Tables<'t> {
            $(pub(super) $field: Table<'t, $key, $value>,)*
        }

        impl<'t> Tables<'t> {
            /// None of them is open yet.
            pub(super) fn of(writing: &'t WriteTransaction) -> Self {
                Self { $($field: $DEFINITION.at_first_use(writing),)* }
            }

            /// Opens all, creating those that are missing.
            pub(super) fn open(writing: &'t WriteTransaction) -> Result<Self, StoreError> {
                Ok(Self { $($field: $DEFINITION.write(writing)?,)* })
            }
        }
    };
}

tables! {
    /// Schema version, counters, and the beat of commits that change nothing else.
    meta META: &'static str => Bytes;
    /// How jobs stand: [`super::row::Row`].
    jobs JOBS: &'static JobBytes => Bytes;
    /// What was asked; written once.
    specs SPECS: &'static JobBytes => Bytes;
    /// What was answered; written once.
    outputs OUTPUTS: &'static JobBytes => Bytes;
    /// Events and marks.
    log LOG: &'static LogBytes => Bytes;
    /// Jobs by owner, state and acceptance.
    owned OWNED: &'static OwnerBytes => &'static JobBytes;
    /// Jobs that may run now, in the order in which they shall, and since when: [`super::keys::Waiting`].
    ready READY: &'static ReadyBytes => &'static WaitingBytes;
    /// Jobs that wait for their time.
    delayed DELAYED: &'static DelayedBytes => &'static JobBytes;
    /// Jobs that a worker holds: all that recovery has to look at.
    running RUNNING: &'static JobBytes => ();
    /// Unfinished jobs of a conversation in order of acceptance.
    lines LINES: &'static TurnBytes => &'static JobBytes;
    /// Unfinished jobs that run beside their conversation, by owner: [`super::beside::BesideKey`].
    beside BESIDE: &'static BesideBytes => ();
    /// What a conversation's ended jobs said.
    turns TURNS: &'static TurnBytes => Bytes;
    /// What stands for a conversation's oldest turns: [`crate::domain::job::ConversationSummary`], under accept 0.
    summaries SUMMARIES: &'static TurnBytes => Bytes;
    /// Conversations: [`super::conversation_row::ConversationRow`], under accept 0.
    conversations CONVERSATIONS: &'static TurnBytes => Bytes;
    /// Conversations of a user, the one that changed last first: [`super::conversation_keys::RecentKey`].
    conversations_by_time CONVERSATIONS_BY_TIME: &'static TurnBytes => Bytes;
    /// How many conversations users have: [`super::conversation_keys::count_key`].
    conversation_counts CONVERSATION_COUNTS: &'static FairBytes => u64;
    /// What jobs are to their conversations: [`super::exchange::Exchange`].
    exchanges EXCHANGES: &'static TurnBytes => Bytes;
    /// Conversations that are gone but for their jobs, up to this one, which the sweeper removes.
    conversation_waste CONVERSATION_WASTE: &'static TurnBytes => Bytes;
    /// What users have spent, by day and model: [`super::accounts::Booked`].
    usage USAGE: &'static UsageBytes => Bytes;
    /// The same by hour and model.
    usage_hours USAGE_HOURS: &'static UsageBytes => Bytes;
    /// What conversations have cost: [`crate::domain::usage::UsageByModel`], under accept 0.
    conversation_usage CONVERSATION_USAGE: &'static TurnBytes => Bytes;
    /// The newest fair time of a user inside a priority.
    fair FAIR: &'static FairBytes => u64;
    /// How batches stand: [`super::batch_row::BatchRow`].
    batches BATCHES: &'static BatchBytes => Bytes;
    /// Batches by owner.
    batches_owned BATCHES_OWNED: &'static OwnedBatchBytes => ();
    /// Their lines: [`super::batch_row::LineRow`].
    batch_lines BATCH_LINES: &'static LineBytes => Bytes;
    /// Lines whose job has not ended.
    batch_active BATCH_ACTIVE: &'static LineBytes => &'static JobBytes;
    /// Lines in the order of their ends, counted from 1.
    batch_ended BATCH_ENDED: &'static LineBytes => u32;
    /// Batches whose lines are stored and which are not accepted yet.
    filling FILLING: &'static BatchBytes => ();
    /// Batches that are gone but for their lines, which the sweeper removes.
    batch_waste BATCH_WASTE: &'static BatchBytes => ();
    /// How schedules stand: [`crate::domain::schedule::Schedule`].
    schedules SCHEDULES: &'static ScheduleBytes => Bytes;
    /// What they ask for: [`crate::domain::schedule::ScheduledRequest`]; written once.
    schedule_orders SCHEDULE_ORDERS: &'static ScheduleBytes => Bytes;
    /// Schedules by owner.
    schedules_owned SCHEDULES_OWNED: &'static ScheduleOwnerBytes => ();
    /// Schedules that have a next occurrence, by its time.
    schedules_due SCHEDULES_DUE: &'static ScheduleDueBytes => ();
    /// Idempotency keys and what came of them.
    once ONCE: &'static OnceBytes => Bytes;
    /// When they may be forgotten.
    once_due ONCE_DUE: &'static OnceDueBytes => ();
    /// Ended jobs by what is left of them and by their end: all that retention has to look at.
    ended ENDED: &'static EndedBytes => ();
    /// Reports of ends, and what became of them: [`crate::domain::webhook::Delivery`].
    deliveries DELIVERIES: &'static DeliveryBytes => Bytes;
    /// Pending ones by the time of their next try, with their host and port.
    deliveries_due DELIVERIES_DUE: &'static DeliveryTimeBytes => &'static str;
    /// All by owner, state and age.
    deliveries_owned DELIVERIES_OWNED: &'static DeliveryOwnerBytes => ();
    /// Settled ones by the time at which they are forgotten.
    deliveries_settled DELIVERIES_SETTLED: &'static DeliveryTimeBytes => ();
    /// Accounts: [`crate::domain::account::Account`].
    users USERS: &'static AccountBytes => Bytes;
    /// Names and addresses of accounts, keys of tokens, codes of invites: where each leads, [`super::user_keys::By`].
    user_finds USER_FINDS: &'static FoundBytes => Bytes;
    /// API tokens by owner: [`super::token_write::TokenRow`].
    tokens TOKENS: &'static TokenBytes => Bytes;
    /// Projects: [`crate::domain::project::Project`].
    projects PROJECTS: &'static ProjectBytes => Bytes;
    /// Projects by owner, the one that changed last first; the values are empty.
    projects_owned PROJECTS_OWNED: &'static ProjectOwnerBytes => Bytes;
    /// Projects of which only the directory may be there: in the making, or on their way out.
    projects_waste PROJECTS_WASTE: &'static ProjectBytes => Bytes;
}

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
    /// Bytes deleted since the last compaction.
    pub(super) freed_bytes: u64,
    /// The wall clock at the last beat, unix milliseconds.
    pub(super) seen_ms: u64,
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
pub(super) fn inspect(database: &impl ReadableDatabase) -> Result<Layout, StoreError> {
    let reading = database.begin_read()?;
    let version = match META.read(&reading) {
        Ok(meta) => meta.get(META_SCHEMA)?.map(|bytes| value::decode(bytes.value())).transpose()?,
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error @ TableError::TableTypeMismatch { .. }) => {
            return Err(StoreError::Corrupt(format!("its layout is unknown to this build: {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(version.map_or(Layout::Empty, Layout::Known))
}

/// Whether the file has every table of this build.
pub(super) fn has_all(reading: &ReadTransaction) -> Result<bool, StoreError> {
    let there: HashSet<String> = reading.list_tables()?.map(|table| table.name().to_owned()).collect();
    Ok(NAMES.iter().all(|name| there.contains(*name)))
}

impl Tables<'_> {
    /// Makes an empty file a store.
    pub(super) fn found(&mut self) -> Result<(), StoreError> {
        self.meta.insert(META_SCHEMA, value::encode(&VERSION)?.as_slice())?;
        self.store_counters(&Counters::default())
    }

    /// The counters as of the last commit.
    pub(super) fn load_counters(&self) -> Result<Counters, StoreError> {
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
