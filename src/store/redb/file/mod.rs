//! The file: opening, failed syncs, layout, check, backup, restore, compaction and free disk space.

pub(crate) mod backup;
pub(crate) mod check;
mod check_counts;
pub(crate) mod checked_file;
pub(crate) mod compaction;
pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod layout;
pub(crate) mod medium;
pub(crate) mod migration;
pub(crate) mod open;
pub(crate) mod overlay;
pub(crate) mod page_cache;
pub(crate) mod restore;
pub(crate) mod watermark;
