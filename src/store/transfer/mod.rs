//! Moves all rows of a store to another one, copies a database into a file, checks a database, and verifies
//! logs.

mod backup;
mod check;
mod compare;
mod copy;
mod error;
mod migrate;
mod verify;

pub use backup::backup_database;
pub use check::{check_database, shared_dir_beacon};
pub use compare::TableComparison;
pub use error::TransferError;
pub use migrate::{MigrationReport, StoreLocation, migrate};
pub use verify::{EachVerdict, LogFault, shared_log_key, verify_checkpoints, verify_logs};
