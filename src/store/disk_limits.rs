//! The disk space that must stay free. Below it, only new work is refused.

use crate::domain::limits::Limits;
use crate::ports::{DiskSpace, StoreError};
use std::path::Path;

/// Maximum threshold from the percentage, bytes.
const SHARE_MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;

/// Space of the file system of this path; `None`: not known.
pub fn disk_space(path: &Path) -> Option<DiskSpace> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some(DiskSpace { free_bytes: bytes(disk.f_bavail), total_bytes: bytes(disk.f_blocks) })
}

/// The threshold; 0 switches either part off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiskLimits {
    pub(super) least_bytes: u64,
    pub(super) percent: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

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
}
