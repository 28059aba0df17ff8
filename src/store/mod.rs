//! The embedded store behind [`crate::ports::Store`]: jobs, events, batches, schedules, accounts,
//! projects and uploaded files.

mod atomic_file;
mod change_watches;
mod commit_metrics;
mod content_pins;
mod contents;
mod damage_panic;
mod delivery_notify;
mod disk_limits;
mod file_probe;
mod job_removals;
mod limits;
pub mod options;
mod port_error;
pub mod postgres;
mod queue_length;
mod redb;
mod retention_age;
mod rows;
mod slow_commits;
mod transfer;
mod waiting_claims;

pub(crate) use self::postgres::LOG_KEY_SETTING;
pub use self::redb::{
    LAYOUT, LayoutProbe, OpenError, RedbStore, StoreCheck, WriterLossCause, backup_closed, check,
    file_advice, layout, restore,
};
pub use atomic_file::AtomicFile;
pub use contents::ContentDirectory;
pub use damage_panic::{DAMAGED_EXIT, DAMAGED_STORE, is_about_to_abort};
pub use disk_limits::disk_space;
use file_probe::mark_store;
pub use file_probe::{FileProbe, had_store, probe_file};
pub use retention_age::{InvalidRetentionAge, RetentionAge};
pub use rows::checkpoint::CheckpointReport;
pub use transfer::{
    EachVerdict, LogFault, MigrationReport, StoreLocation, TableComparison, TransferError, backup_database,
    check_database, migrate, shared_dir_beacon, shared_log_key, verify_checkpoints, verify_logs,
};
