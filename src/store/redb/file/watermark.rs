//! The disk space that must stay free. Below it, only new work is refused. The disk is
//! checked once a second.

use crate::ports::StoreError;
use crate::store::disk_limits::DiskLimits;
use crate::store::redb::file::medium::Medium;
use crate::store::redb::writer::transaction::Transaction;

/// How often free space is read, milliseconds.
const CHECK_EVERY_MS: u64 = 1_000;

/// The last check of the disk.
#[derive(Debug)]
pub(crate) struct DiskWatermark {
    mark: DiskLimits,
    checked_ms: Option<u64>,
    low: Option<StoreError>,
}

impl DiskWatermark {
    pub(crate) fn new(mark: DiskLimits) -> Self {
        Self { mark, checked_ms: None, low: None }
    }

    /// The error for new work when the disk is nearly full. If free space is unknown, nothing is refused.
    pub(crate) fn check(&mut self, medium: &dyn Medium, now_ms: u64) -> Option<StoreError> {
        if self.checked_ms.is_none_or(|checked| now_ms.saturating_sub(checked) >= CHECK_EVERY_MS) {
            self.checked_ms = Some(now_ms);
            let low = medium.space().and_then(|space| self.mark.check(space, 0).err());
            match (&self.low, &low) {
                (None, Some(low)) => tracing::warn!("{low}"),
                (Some(_), None) => tracing::info!("disk has room again; new jobs are accepted"),
                _ => {}
            }
            self.low = low;
        }
        self.low.clone()
    }
}

impl Transaction<'_> {
    /// Refuses new work while the disk is nearly full. Call it before the first write.
    pub(crate) fn refuse_low_disk(&self) -> Result<(), StoreError> {
        self.low_disk.clone().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::DiskSpace;
    use redb::{Database, DatabaseError};
    use std::sync::atomic::{AtomicU64, Ordering};

    const MIB: u64 = 1024 * 1024;

    struct Disk(AtomicU64);

    impl Medium for Disk {
        fn open(&self, _cache_bytes: usize) -> Result<Database, DatabaseError> {
            unreachable!("nobody opens it")
        }
        fn bytes(&self) -> u64 {
            0
        }
        fn space(&self) -> Option<DiskSpace> {
            Some(DiskSpace { free_bytes: self.0.load(Ordering::SeqCst), total_bytes: 1_000 * MIB })
        }
    }

    #[test]
    fn the_disk_is_checked_once_a_second_and_the_error_clears() {
        let disk = Disk(AtomicU64::new(100 * MIB));
        let mut watermark = DiskWatermark::new(DiskLimits { least_bytes: 256 * MIB, percent: 0 });
        let low = StoreError::LowDisk { free_bytes: 100 * MIB, needed_bytes: 256 * MIB };
        assert_eq!(watermark.check(&disk, 5), Some(low.clone()));
        disk.0.store(300 * MIB, Ordering::SeqCst);
        assert_eq!(watermark.check(&disk, 5 + CHECK_EVERY_MS - 1), Some(low));
        assert_eq!(watermark.check(&disk, 5 + CHECK_EVERY_MS), None);
        disk.0.store(0, Ordering::SeqCst);
        assert_eq!(watermark.check(&disk, 5 + CHECK_EVERY_MS), None);
        assert!(watermark.check(&disk, 5 + 2 * CHECK_EVERY_MS).is_some());
    }
}
