//! Reads the layout of a closed store's file without changing it.

use crate::store::redb::codec::tables;
use crate::store::redb::codec::tables::StoredLayout;
use redb::{DatabaseError, ReadOnlyDatabase};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The layout that this build writes.
pub const LAYOUT: u64 = tables::VERSION;

/// The layout of a file, as far as it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LayoutProbe {
    /// A store of this layout.
    Known(u64),
    /// An empty database.
    Empty,
    /// A server has it open.
    Locked,
    /// It was not closed cleanly; the next start repairs it.
    NeedsRecovery,
    /// It cannot be read, with the reason.
    Damaged(String),
}

/// Reads the layout without changing the file.
pub fn layout(path: &Path) -> LayoutProbe {
    // redb trusts its pages, so a damaged file may cause a panic.
    let probed = catch_unwind(AssertUnwindSafe(|| probe_layout(path)));
    probed.unwrap_or_else(|_panic| LayoutProbe::Damaged("its pages contradict each other".to_owned()))
}

fn probe_layout(path: &Path) -> LayoutProbe {
    let database = match ReadOnlyDatabase::open(path) {
        Ok(database) => database,
        Err(DatabaseError::DatabaseAlreadyOpen) => return LayoutProbe::Locked,
        Err(DatabaseError::RepairAborted) => return LayoutProbe::NeedsRecovery,
        Err(error) => return LayoutProbe::Damaged(error.to_string()),
    };
    match tables::inspect(&database) {
        Ok(StoredLayout::Known(version)) => LayoutProbe::Known(version),
        Ok(StoredLayout::Empty) => LayoutProbe::Empty,
        Err(error) => LayoutProbe::Damaged(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redb::codec::tables::Tables;

    #[test]
    fn the_layout_probe_survives_locked_torn_and_broken_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        let database = redb::Database::create(&path).unwrap();
        assert_eq!(layout(&path), LayoutProbe::Locked);
        let writing = database.begin_write().unwrap();
        Tables::open(&writing).unwrap().found().unwrap();
        writing.commit().unwrap();
        drop(database);
        assert_eq!(layout(&path), LayoutProbe::Known(LAYOUT));

        let intact = std::fs::read(&path).unwrap();
        let mut torn = intact.clone();
        torn.truncate(intact.len() / 2);
        std::fs::write(&path, &torn).unwrap();
        assert!(
            !matches!(layout(&path), LayoutProbe::Known(_) | LayoutProbe::Empty),
            "half of it is missing"
        );
        for at in (16..4096).step_by(97) {
            let mut broken = intact.clone();
            broken[at..at + 8].fill(0xFF);
            std::fs::write(&path, &broken).unwrap();
            drop(layout(&path)); // any result, but no panic
        }
    }
}
