//! The disk space that must stay free. Below it, only new work is refused. The disk is
//! checked once a second.

use crate::domain::limits::Limits;
use crate::ports::StoreError;
use crate::store::redb::file::medium::{DiskSpace, Medium};
use crate::store::redb::writer::transaction::Transaction;

/// Maximum threshold from the percentage, bytes.
const SHARE_MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// How often free space is read, milliseconds.
const CHECK_EVERY_MS: u64 = 1_000;

/// The threshold; 0 switches either part off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskLimits {
    least_bytes: u64,
    percent: u64,
}

impl From<&Limits> for DiskLimits {
    fn from(limits: &Limits) -> Self {
        Self { least_bytes: limits.disk_free_bytes, percent: limits.disk_free_percent }
    }
}

impl DiskLimits {
    /// Fails if less than the threshold is free after `planned_bytes` more are written.
    pub(crate) fn check(self, space: DiskSpace, planned_bytes: u64) -> Result<(), StoreError> {
        let share = (space.total_bytes / 100).saturating_mul(self.percent).min(SHARE_MAX_BYTES);
        let needed_bytes = self.least_bytes.max(share).saturating_add(planned_bytes);
        match space.free_bytes {
            free_bytes if free_bytes < needed_bytes => Err(StoreError::LowDisk { free_bytes, needed_bytes }),
            _ => Ok(()),
        }
    }
}

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

    fn needed(least_bytes: u64, percent: u64, total_bytes: u64) -> u64 {
        let refused = DiskLimits { least_bytes, percent }.check(DiskSpace { free_bytes: 0, total_bytes }, 0);
        match refused {
            Err(StoreError::LowDisk { needed_bytes, .. }) => needed_bytes,
            Ok(()) => 0,
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_disk_threshold_is_the_larger_limit_and_its_share_is_capped() {
        assert_eq!(needed(256 * MIB, 5, 1_000 * MIB), 256 * MIB);
        assert_eq!(needed(256 * MIB, 5, 10_000 * MIB), 500 * MIB);
        assert_eq!(needed(256 * MIB, 5, 1 << 50), SHARE_MAX_BYTES);
        assert_eq!(needed(8 << 30, 5, 1 << 50), 8 << 30, "who asks for more gets more");
        assert_eq!(needed(0, 5, 1_000 * MIB), 50 * MIB);
        assert_eq!(needed(256 * MIB, 0, 1 << 50), 256 * MIB);
        assert_eq!(needed(0, 0, 1 << 50), 0, "off");
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
