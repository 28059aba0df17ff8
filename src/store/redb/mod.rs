//! The store on redb: one file, one writer thread, readers beside it.
//!
//! A write goes through the bounded channel to the writer thread, which gathers a group, applies it to one
//! transaction, commits, fsyncs, and only then resolves the tickets and wakes readers and workers.

mod accounts;
mod batches;
mod codec;
mod conversations;
mod file;
mod jobs;
mod node_store;
mod projects;
mod queue;
mod retention;
mod schedules;
mod store;
mod stored_files;
pub(crate) mod transfer;
mod volatile;
mod webhooks;
mod writer;

pub(crate) use self::codec::read_transaction::ReadTransaction;
pub use self::file::backup::backup_closed;
pub use self::file::check::{StoreCheck, check};
pub use self::file::error::{OpenError, file_advice};
pub use self::file::layout::{LAYOUT, LayoutProbe, layout};
pub use self::file::restore::restore;
pub use self::store::RedbStore;
pub use self::writer::shared::WriterLossCause;
