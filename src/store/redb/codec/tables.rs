//! The tables of the file, their types and the number of their layout.

use crate::ports::StoreError;
use crate::store::redb::codec::checksum;
use crate::store::redb::codec::damage::DamageReport;
use crate::store::redb::codec::keys::accounts::{
    AccountBytes, AccountLookupBytes, TokenBytes, UnfinishedWorkBytes, UsageBytes,
};
use crate::store::redb::codec::keys::batches::{
    BatchBytes, BatchExpiryBytes, BatchLineBytes, OwnedBatchBytes,
};
use crate::store::redb::codec::keys::conversations::{AddedBytes, TurnBytes};
use crate::store::redb::codec::keys::deliveries::{DeliveryBytes, DeliveryOwnerBytes, DeliveryTimeBytes};
use crate::store::redb::codec::keys::jobs::{
    AnsweredApprovalBytes, BackgroundJobBytes, CheckpointBytes, DelayedBytes, EndedBytes, FairBytes,
    IdempotencyBytes, IdempotencyExpiryBytes, JobBytes, JobDependentBytes, JobEndBytes, JobOwnerBytes,
    LogBytes, OwnedCompletionBytes, ReadyBytes, ReadyEntryBytes, SpanExportBytes, UserReadyBytes,
};
use crate::store::redb::codec::keys::projects::{ProjectBytes, ProjectOwnerBytes};
use crate::store::redb::codec::keys::schedules::{ScheduleBytes, ScheduleDueBytes, ScheduleOwnerBytes};
use crate::store::redb::codec::keys::stored_files::{
    FileContentBytes, FileExpiryBytes, HeldImageBytes, OwnedFileBytes,
};
use crate::store::redb::codec::lazy_table::RawBytes;
use crate::store::redb::codec::malformed_rows::quarantine_key;
use crate::store::redb::codec::read_transaction::ReadTransaction;
use crate::store::redb::codec::row_bytes::{OwnerChanges, RowCounter, RowOwner};
use crate::store::redb::codec::table::{ReadableTable, TypedTable, WriteTable};
use crate::store::redb::codec::table_codec::TableCodec;
use crate::store::redb::codec::values;
use redb::{Database, ReadableDatabase, TableError, WriteTransaction};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::Arc;

/// The layout that this build reads and writes. A change of layout raises it and adds a migration
/// ([`crate::store::redb::file::migration`]); a table that is merely new needs neither.
pub(crate) const VERSION: u64 = 4;

pub(crate) const META_SCHEMA: &str = "schema";
/// Present while [`STORED_BYTES`] is kept.
pub(crate) const META_STORED_BYTES: &str = "stored_bytes";
const META_COUNTERS: &str = "counters";

/// The counters as of the last commit; those of an empty file are zero.
pub(crate) fn counters(reading: &ReadTransaction) -> Result<StoreCounters, StoreError> {
    match META.read(reading)?.get(META_COUNTERS)? {
        Some(bytes) => values::decode(bytes.value()),
        None => Ok(StoreCounters::default()),
    }
}

/// The one list of tables: their definitions, [`Tables`], and [`NAMES`] come from it, so that no table can be
/// forgotten by a backup.
macro_rules! tables {
    ($($(#[$doc:meta])* $field:ident $DEFINITION:ident: $key:ty => $value:ty $(, of $owner:ident)? $(, counted as $kind:ident)?;)*) => {
        $($(#[$doc])*
        pub(crate) const $DEFINITION: TypedTable<$key, $value> = TypedTable::new(stringify!($field));)*

        /// Names of all tables.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($field)),*];

        /// Whether a row is as it was stored. `stored` is its value with its checksum.
        pub(crate) fn is_intact(table: &str, key: &[u8], stored: &[u8]) -> bool {
            let value = checksum::unseal(table, key, stored);
            match table {
                $(stringify!($field) => {
                    <$key as TableCodec>::decode(key).is_some()
                        && value.and_then(<$value as TableCodec>::decode).is_some()
                })*
                _ => value.is_some(),
            }
        }

        /// All tables of one write transaction; each opens when it is first used.
        pub(crate) struct Tables<'t> {
            $(pub(crate) $field: WriteTable<'t, $key, $value>,)*
            byte_changes: OwnerChanges,
            /// Changes of the unfinished jobs of users.
            pub(crate) job_changes: OwnerChanges,
        }

        impl<'t> Tables<'t> {
            /// Opens no table yet.
            pub(crate) fn of(writing: &'t WriteTransaction) -> Self {
                Self::reporting(writing, &Arc::default())
            }

            /// The same; damaged rows are reported.
            pub(crate) fn reporting(writing: &'t WriteTransaction, damage: &Arc<DamageReport>) -> Self {
                let (byte_changes, job_changes) = (OwnerChanges::default(), OwnerChanges::default());
                Self {
                    $($field: $DEFINITION.at_first_use(writing, damage)
                        $(.counted(RowCounter::bytes(RowOwner::$owner, &byte_changes)))?
                        $(.counted(RowCounter::$kind(&job_changes)))?,)*
                    byte_changes,
                    job_changes,
                }
            }

            /// Takes the changes of the owners' bytes since the last call.
            pub(crate) fn take_byte_changes(&self) -> HashMap<RowOwner, i64> {
                self.byte_changes.take()
            }

            /// Reads all rows that count as their owners' bytes.
            pub(crate) fn count_bytes(
                &self,
                each: &mut dyn FnMut(RowOwner, u64) -> Result<(), StoreError>,
            ) -> Result<(), StoreError> {
                $($(self.$field.count_bytes(RowOwner::$owner, each)?;)?)*
                Ok(())
            }

            /// Moves the malformed rows found to the table `quarantine`. Returns whether there were any.
            pub(crate) fn quarantine_malformed(&mut self) -> Result<bool, StoreError> {
                let mut rows = Vec::new();
                $(for (key, row) in self.$field.take_malformed()? {
                    rows.push((quarantine_key(stringify!($field), &key), row.value));
                })*
                for (key, value) in &rows {
                    self.quarantine.insert(key.as_slice(), value.as_slice())?;
                }
                Ok(!rows.is_empty())
            }

            /// Opens all, creating those that are missing.
            pub(crate) fn open(writing: &'t WriteTransaction) -> Result<Self, StoreError> {
                let tables = Self::of(writing);
                $(tables.$field.len()?;)*
                Ok(tables)
            }
        }
    };
}

tables! {
    /// Schema version, counters, and the beat of commits that change nothing else.
    meta META: &'static str => RawBytes;
    /// State of jobs: [`crate::store::rows::job::JobRow`].
    jobs JOBS: &'static JobBytes => RawBytes, of job;
    /// Requests of jobs; written once.
    specs SPECS: &'static JobBytes => RawBytes, of job;
    /// Answers of jobs; written once.
    outputs OUTPUTS: &'static JobBytes => RawBytes, of job;
    /// Events and marks.
    log LOG: &'static LogBytes => RawBytes, of job;
    /// Jobs that are stored chat completions, by owner.
    completions_owned COMPLETIONS_OWNED: &'static OwnedCompletionBytes => ();
    /// Requests for approvals that were answered, and the jobs that act on the answers.
    answered_approvals ANSWERED_APPROVALS: &'static AnsweredApprovalBytes => &'static JobBytes;
    /// Jobs by owner, state and acceptance.
    owned OWNED: &'static JobOwnerBytes => &'static JobBytes, counted as unfinished_jobs;
    /// How much unfinished work users have: [`crate::store::redb::accounts::unfinished_work`].
    unfinished_work UNFINISHED_WORK: &'static AccountBytes => &'static UnfinishedWorkBytes;
    /// Jobs that may run now, in queue order, and since when:
    /// [`crate::store::redb::codec::keys::jobs::Waiting`].
    ready READY: &'static ReadyBytes => &'static ReadyEntryBytes;
    /// The same user by user, if users share the workers:
    /// [`crate::store::redb::queue::user_ready`].
    ready_by_user READY_BY_USER: &'static UserReadyBytes => &'static ReadyEntryBytes;
    /// Jobs that wait for their time.
    delayed DELAYED: &'static DelayedBytes => &'static JobBytes;
    /// Jobs that wait for the end of others, by these.
    job_dependents JOB_DEPENDENTS: &'static JobDependentBytes => ();
    /// Jobs that end at a time, or after one that has failed, by the time of the next look:
    /// [`crate::store::redb::jobs::conditions`].
    job_ends JOB_ENDS: &'static JobEndBytes => ();
    /// Leased jobs: the only ones that recovery reads.
    running RUNNING: &'static JobBytes => ();
    /// Unfinished jobs of a conversation in order of acceptance.
    conversation_queue CONVERSATION_QUEUE: &'static TurnBytes => &'static JobBytes;
    /// Unfinished jobs that run beside their conversation, by owner:
    /// [`crate::store::redb::jobs::background::BackgroundJobKey`].
    background_jobs BACKGROUND_JOBS: &'static BackgroundJobBytes => ();
    /// Messages of a conversation's ended jobs.
    turns TURNS: &'static TurnBytes => RawBytes, of user;
    /// Summaries of a conversation's oldest turns: [`crate::domain::job::ConversationSummary`], under
    /// accept 0.
    summaries SUMMARIES: &'static TurnBytes => RawBytes, of user;
    /// Conversations: [`crate::store::rows::conversation::ConversationRow`], under accept 0.
    conversations CONVERSATIONS: &'static TurnBytes => RawBytes, of user;
    /// Conversations of a user, the one that changed last first:
    /// [`crate::store::redb::codec::keys::conversations::RecentConversationKey`].
    conversations_by_time CONVERSATIONS_BY_TIME: &'static TurnBytes => ();
    /// How many conversations users have: [`crate::store::redb::codec::keys::conversations::count_key`].
    conversation_counts CONVERSATION_COUNTS: &'static FairBytes => u64;
    /// Questions and answers of conversations:
    /// [`crate::store::rows::conversation::MessagePair`].
    message_pairs MESSAGE_PAIRS: &'static TurnBytes => RawBytes;
    /// Items that clients added, and deleted: [`crate::domain::conversation::StoredItems`]. What models read
    /// of them is in `turns`.
    conversation_items CONVERSATION_ITEMS: &'static TurnBytes => RawBytes, of user;
    /// Those that were added, by time.
    added_items ADDED_ITEMS: &'static AddedBytes => ();
    /// Removed conversations whose jobs still exist: the last job, and the first one. The sweeper
    /// removes those.
    removed_conversations REMOVED_CONVERSATIONS: &'static TurnBytes => u64;
    /// Usage of users by day and model: [`crate::store::rows::usage::UsageRow`].
    usage USAGE: &'static UsageBytes => RawBytes;
    /// The same by hour and model.
    usage_hours USAGE_HOURS: &'static UsageBytes => RawBytes;
    /// Cost of conversations: [`crate::domain::usage::UsageByModel`], under accept 0. By day, under numbers
    /// of days: [`crate::store::rows::usage::ConversationDayRow`].
    conversation_usage CONVERSATION_USAGE: &'static TurnBytes => RawBytes;
    /// The newest fair time of a user inside a priority.
    fair FAIR: &'static FairBytes => u64;
    /// State of batches: [`crate::store::rows::batch::BatchRow`].
    batches BATCHES: &'static BatchBytes => RawBytes;
    /// Batches by owner.
    batches_owned BATCHES_OWNED: &'static OwnedBatchBytes => ();
    /// Those from files whose files with results are not written, by owner.
    batches_without_files BATCHES_WITHOUT_FILES: &'static OwnedBatchBytes => ();
    /// Those that wait for a quota, by owner.
    waiting_batches WAITING_BATCHES: &'static OwnedBatchBytes => ();
    /// Open ones that expire, by time.
    expiring_batches EXPIRING_BATCHES: &'static BatchExpiryBytes => ();
    /// Their lines: [`crate::store::rows::batch::BatchLineRow`].
    batch_lines BATCH_LINES: &'static BatchLineBytes => RawBytes, of batch;
    /// Lines whose job has not ended.
    batch_active BATCH_ACTIVE: &'static BatchLineBytes => &'static JobBytes;
    /// Lines in the order of their ends, counted from 1.
    batch_ended BATCH_ENDED: &'static BatchLineBytes => u32;
    /// Users whose batches have lines.
    batch_owners BATCH_OWNERS: &'static BatchBytes => u32;
    /// Batches whose lines are stored and which are not accepted yet.
    unaccepted_batches UNACCEPTED_BATCHES: &'static BatchBytes => ();
    /// Removed batches whose lines still exist; the sweeper removes them.
    removed_batches REMOVED_BATCHES: &'static BatchBytes => ();
    /// State of schedules: [`crate::domain::schedule::Schedule`].
    schedules SCHEDULES: &'static ScheduleBytes => RawBytes;
    /// Requests of schedules: [`crate::domain::schedule::ScheduledRequest`]; written once.
    scheduled_requests SCHEDULED_REQUESTS: &'static ScheduleBytes => RawBytes, of schedule;
    /// Schedules by owner.
    schedules_owned SCHEDULES_OWNED: &'static ScheduleOwnerBytes => ();
    /// Schedules that have a next occurrence, by its time.
    schedules_due SCHEDULES_DUE: &'static ScheduleDueBytes => ();
    /// Idempotency keys and what they created.
    idempotency IDEMPOTENCY: &'static IdempotencyBytes => RawBytes;
    /// When they may be forgotten.
    idempotency_expiry IDEMPOTENCY_EXPIRY: &'static IdempotencyExpiryBytes => ();
    /// Ended jobs by retention stage and end: the index of retention.
    ended ENDED: &'static EndedBytes => ();
    /// Checkpoints by number: [`crate::domain::log_chain::StoredCheckpoint`].
    log_checkpoints LOG_CHECKPOINTS: &'static CheckpointBytes => RawBytes;
    /// Imported jobs that the next checkpoint looks at.
    checkpoint_imports CHECKPOINT_IMPORTS: &'static JobBytes => ();
    /// Ends of jobs whose spans wait for the export.
    span_exports SPAN_EXPORTS: &'static SpanExportBytes => ();
    /// Webhook deliveries: [`crate::domain::webhook::Delivery`].
    deliveries DELIVERIES: &'static DeliveryBytes => RawBytes;
    /// Pending ones by the time of their next try, with their owner and receiver.
    deliveries_due DELIVERIES_DUE: &'static DeliveryTimeBytes => &'static str;
    /// All by owner, state and age.
    deliveries_owned DELIVERIES_OWNED: &'static DeliveryOwnerBytes => ();
    /// Settled ones by the time at which they are forgotten.
    deliveries_settled DELIVERIES_SETTLED: &'static DeliveryTimeBytes => ();
    /// Accounts: [`crate::domain::account::Account`].
    users USERS: &'static AccountBytes => RawBytes;
    /// Lookup by name or address of an account, key of a token, code of an invite:
    /// [`crate::store::redb::codec::keys::accounts::By`].
    account_lookup ACCOUNT_LOOKUP: &'static AccountLookupBytes => RawBytes;
    /// Bytes of users' rows in the tables that name an owner here (`of`), if quotas hold:
    /// [`crate::store::redb::accounts::stored_bytes`].
    stored_bytes STORED_BYTES: &'static AccountBytes => u64;
    /// API tokens by owner: [`crate::store::redb::accounts::tokens::TokenRow`].
    tokens TOKENS: &'static TokenBytes => RawBytes;
    /// Projects: [`crate::domain::project::Project`].
    projects PROJECTS: &'static ProjectBytes => RawBytes;
    /// Projects by owner, the one that changed last first.
    projects_owned PROJECTS_OWNED: &'static ProjectOwnerBytes => ();
    /// Projects being created or removed, of which only the directory may exist.
    pending_directories PENDING_DIRECTORIES: &'static ProjectBytes => RawBytes;
    /// Files of `/v1/files`: [`crate::domain::stored_file::StoredFile`].
    files FILES: &'static OwnedFileBytes => RawBytes, of user;
    /// Those that expire, by time.
    files_expiring FILES_EXPIRING: &'static FileExpiryBytes => ();
    /// Images: the length of each, under digest and what names it
    /// ([`crate::store::redb::codec::keys::stored_files::ImageHolder`]).
    job_images JOB_IMAGES: &'static HeldImageBytes => u64;
    /// All files, and all that name images, by content, with empty values: a damaged one still counts, so
    /// that its content stays.
    file_contents FILE_CONTENTS: &'static FileContentBytes => RawBytes;
    /// Files of each user together: [`crate::store::rows::file_totals::FileTotals`].
    file_totals FILE_TOTALS: &'static AccountBytes => RawBytes;
    /// Malformed rows of all tables: [`quarantine_key`].
    quarantine QUARANTINE: RawBytes => RawBytes;
}

/// Numbers of the complete store.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct StoreCounters {
    /// The newest acceptance number.
    pub(crate) accept: u64,
    /// Jobs that have not ended.
    pub(crate) unfinished: u64,
    /// The fair time of the job that each priority served last.
    pub(crate) served: [u64; 10],
    /// Commits that had nothing else to write.
    pub(crate) beat: u64,
    /// `RawBytes` deleted since the last compaction.
    pub(crate) freed_bytes: u64,
    /// The wall clock at the last beat, unix milliseconds.
    pub(crate) seen_ms: u64,
    /// For how long the wall clock was distrusted then, milliseconds.
    #[serde(default)]
    pub(crate) distrust_ms: u64,
}

/// Layout of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StoredLayout {
    /// Empty.
    Empty,
    /// Of this version.
    Known(u64),
}

/// Reads the layout without changing the file.
pub(crate) fn inspect(database: &impl ReadableDatabase) -> Result<StoredLayout, StoreError> {
    let reading = ReadTransaction::from(database.begin_read()?);
    let meta = match META.read(&reading) {
        Ok(meta) => meta,
        Err(TableError::TableDoesNotExist(_)) => return Ok(StoredLayout::Empty),
        Err(error @ TableError::TableTypeMismatch { .. }) => {
            return Err(StoreError::Corrupt(format!("its layout is unknown to this build: {error}")));
        }
        Err(error) => return Err(error.into()),
    };
    match meta.stored(META_SCHEMA)? {
        None => Ok(StoredLayout::Empty),
        // Layout 1 had no checksums: the whole value is its number.
        Some(stored) => match values::decode(&stored) {
            Ok(version) => Ok(StoredLayout::Known(version)),
            Err(_) => Ok(meta.row(META_SCHEMA)?.map_or(StoredLayout::Empty, StoredLayout::Known)),
        },
    }
}

/// Makes an empty database a store.
pub(crate) fn create(database: &Database) -> Result<(), StoreError> {
    let writing = database.begin_write()?;
    Tables::open(&writing)?.found()?;
    Ok(writing.commit()?)
}

/// Whether the file has every table of this build.
pub(crate) fn has_all(reading: &ReadTransaction) -> Result<bool, StoreError> {
    let there = reading.table_names()?;
    Ok(NAMES.iter().all(|name| there.contains(*name)))
}

impl Tables<'_> {
    /// Makes an empty file a store.
    pub(crate) fn found(&mut self) -> Result<(), StoreError> {
        self.meta.insert(META_SCHEMA, values::encode(&VERSION)?.as_slice())?;
        self.store_counters(&StoreCounters::default())
    }

    /// The counters as of the last commit.
    pub(crate) fn load_counters(&self) -> Result<StoreCounters, StoreError> {
        match self.meta.get(META_COUNTERS)? {
            Some(bytes) => values::decode(bytes.value()),
            None => Ok(StoreCounters::default()),
        }
    }

    /// Writes the counters.
    pub(crate) fn store_counters(&mut self, counters: &StoreCounters) -> Result<(), StoreError> {
        self.meta.insert(META_COUNTERS, values::encode(counters)?.as_slice())?;
        Ok(())
    }
}
