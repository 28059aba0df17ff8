//! The embedded store behind [`crate::ports::Store`]: jobs, events, batches, schedules, accounts and
//! projects.

mod atomic_file;
mod file_probe;
pub mod options;
mod redb;
mod retention_age;

pub use self::redb::{LAYOUT, LayoutProbe, OpenError, RedbStore, backup_closed, layout, restore};
pub use atomic_file::AtomicFile;
pub use file_probe::{FileProbe, probe_file};
pub use retention_age::{InvalidRetentionAge, RetentionAge};
