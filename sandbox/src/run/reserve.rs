//! The space that a file system must keep free, and how much of it one run may take.
//!
//! Below the line a run may still store a little: commands of running jobs go on while the server refuses new
//! jobs. All runs together take half of the reserve at most.

use super::count_schedule::TreeSize;

/// Inodes that must stay free.
const FLOOR_INODES: u64 = 1_000;
/// Below the line, a run may take one part in this number of the reserve.
const ALLOWED_SHARE: u64 = 16;

/// The reserve of a file system during one run.
#[derive(Debug)]
pub(super) struct Reserve {
    /// What must stay free: half of what was free at the start, if less was free than that.
    floor: TreeSize,
    /// What the run stored when more than the floor was free; `None` until it was counted.
    base: Option<TreeSize>,
}

impl Reserve {
    /// `free_at_start` is what the file system has free now, `own` what the run stores, if that is known.
    pub(super) fn new(floor_bytes: u64, free_at_start: TreeSize, own: Option<TreeSize>) -> Self {
        let floor = TreeSize {
            bytes: floor_bytes.min(free_at_start.bytes / 2),
            entries: FLOOR_INODES.min(free_at_start.entries / 2),
        };
        Self { floor, base: own }
    }

    /// Whether the run must be counted, because the floor may soon be reached.
    pub(super) fn is_near(&self, free: TreeSize) -> bool {
        let near = self.floor.times(2);
        free.bytes <= near.bytes || free.entries <= near.entries
    }

    /// What the file system may lose until the next count matters.
    pub(super) fn margin(&self, free: TreeSize) -> TreeSize {
        free.minus(if self.is_near(free) { self.floor } else { self.floor.times(2) })
    }

    /// Whether a run that stores `own` now has taken more of the reserve than it may.
    pub(super) fn is_taken(&mut self, free: TreeSize, own: TreeSize) -> bool {
        let (bytes, entries) = (free.bytes < self.floor.bytes, free.entries < self.floor.entries);
        let Some(base) = self.base.filter(|_| bytes || entries) else {
            self.base = Some(own);
            return false;
        };
        let taken = own.minus(base);
        (bytes && taken.bytes > self.floor.bytes / ALLOWED_SHARE)
            || (entries && taken.entries > self.floor.entries / ALLOWED_SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn size(mib: u64) -> TreeSize {
        TreeSize { bytes: mib * MIB, entries: 100_000 }
    }

    fn own(mib: u64) -> TreeSize {
        TreeSize { bytes: mib * MIB, entries: 7 }
    }

    #[test]
    fn a_run_that_does_not_grow_stays_whatever_other_programs_take() {
        let mut reserve = Reserve::new(256 * MIB, size(10_000), Some(own(0)));
        for free in [5_000, 300, 255, 10, 0, 0] {
            assert!(!reserve.is_taken(size(free), own(500)), "{free} MiB free");
        }
        // Small files of a running job go on.
        assert!(!reserve.is_taken(size(0), own(510)));
        assert!(reserve.is_taken(size(0), own(517)), "one part in sixteen of the reserve");
    }

    #[test]
    fn a_run_that_fills_the_last_space_ends_even_if_no_count_saw_it_grow() {
        let mut reserve = Reserve::new(256 * MIB, size(64), Some(own(0)));
        assert!(reserve.is_near(size(64)), "a small file system is counted from the start");
        assert!(!reserve.is_taken(size(40), own(24)), "half of what was free may be used");
        assert!(reserve.is_taken(size(0), own(64)));
    }

    #[test]
    fn an_unknown_directory_is_counted_before_the_floor_is_reached() {
        let mut reserve = Reserve::new(256 * MIB, size(10_000), None);
        assert!(!reserve.is_near(size(513)) && reserve.is_near(size(512)));
        assert_eq!(reserve.margin(size(520)).bytes, 8 * MIB);
        assert_eq!(reserve.margin(size(260)).bytes, 4 * MIB);
        assert!(!reserve.is_taken(size(255), own(9_000)), "what it held before is not its growth");
        assert!(reserve.is_taken(size(200), own(9_050)));
    }

    #[test]
    fn a_run_that_fills_the_table_of_inodes_ends() {
        let of = |entries: u64| TreeSize { bytes: 1 << 40, entries };
        let mut reserve = Reserve::new(0, of(10_000), Some(TreeSize::default()));
        assert!(!reserve.is_taken(of(900), TreeSize { bytes: 0, entries: 60 }), "others made them");
        assert!(reserve.is_taken(of(0), TreeSize { bytes: 0, entries: 960 }));
    }

    #[test]
    fn without_a_floor_nothing_ends() {
        let mut reserve = Reserve::new(0, size(64), Some(own(0)));
        assert!(!reserve.is_taken(size(0), own(64)));
    }
}
