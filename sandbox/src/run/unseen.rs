//! Charges a run for bytes in files that cannot be measured.
//!
//! The file system tells how much it has lost since the run began, and the kernel how much the run has
//! written. The larger one, less what can be listed, is what the run may hide. A run that holds no such file
//! is never charged, whatever other programs do. `write_bytes` alone would not do: `fallocate` and tmpfs do
//! not add to it.

use std::time::Duration;

use super::descendants::Descendants;
use crate::proc_text::figure;

/// How long such a file must be held: a message is on its way for a moment, and a program that starts cannot
/// be read yet.
const PATIENCE: Duration = Duration::from_millis(250);
/// Fewer bytes are never charged.
const LEAST_BYTES: u64 = 10_000_000;

/// What is known about a run that may hide bytes.
#[derive(Debug)]
pub(super) struct UnseenBytes {
    /// The last count.
    free: u64,
    listed: Option<u64>,
    /// What the file system has lost between counts, and the run has gained in what can be listed. What
    /// others free, or the run removes, offsets nothing.
    lost: u64,
    gained: u64,
    /// When the run was first seen with files that cannot be measured.
    since: Option<Duration>,
}

impl UnseenBytes {
    /// For a run that begins now. `listed` is what it can list now, if that is known.
    pub(super) fn new(free: u64, listed: Option<u64>) -> Self {
        Self { free, listed, lost: 0, gained: 0, since: None }
    }

    /// Whether the file system has lost enough for a closer look, given what it has free now.
    pub(super) fn may_hide(&mut self, free: u64) -> bool {
        self.lost = self.lost.saturating_add(self.free.saturating_sub(free));
        self.free = free;
        self.lost.saturating_sub(self.gained) >= LEAST_BYTES
    }

    /// The bytes that the run hides, as far as is known, in files that have `unmeasured` bytes at most.
    /// `written` is asked for only if it matters.
    pub(super) fn charge(
        &mut self,
        elapsed: Duration,
        listed: u64,
        unmeasured: u64,
        written: impl FnOnce() -> u64,
    ) -> u64 {
        let last = self.listed.replace(listed).unwrap_or(listed);
        self.gained = self.gained.saturating_add(listed.saturating_sub(last));
        if unmeasured == 0 {
            self.since = None;
            return 0;
        }
        let since = *self.since.get_or_insert(elapsed);
        if elapsed.saturating_sub(since) < PATIENCE {
            return 0;
        }
        let charge = self.lost.max(written()).saturating_sub(self.gained).min(unmeasured);
        if charge < LEAST_BYTES { 0 } else { charge }
    }
}

/// What these processes, and those that they have reaped, have written to disks.
pub(super) fn written_bytes(guest: &Descendants) -> u64 {
    let mut written: u64 = 0;
    for process in &guest.processes {
        let text = std::fs::read_to_string(format!("/proc/{}/io", process.pid)).unwrap_or_default();
        let bytes = |name: &str| figure(&text, name).unwrap_or(0);
        let kept = bytes("write_bytes:").saturating_sub(bytes("cancelled_write_bytes:"));
        written = written.saturating_add(kept);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// The last charge, in MB, of a run with these counts (free, listed and unmeasured MB), one each second,
    /// that has written so many MB.
    fn charge(counts: &[(u64, u64, u64)], written: u64) -> u64 {
        let mut unseen = UnseenBytes::new(1_000 * MB, Some(0));
        let charges = (0..).zip(counts).map(|(second, (free, listed, unmeasured))| {
            unseen.may_hide(free * MB);
            let unmeasured = unmeasured.saturating_mul(MB);
            unseen.charge(Duration::from_secs(second), listed * MB, unmeasured, || written * MB) / MB
        });
        charges.last().unwrap()
    }

    #[test]
    fn a_run_without_such_files_is_not_charged_whatever_the_disk_loses() {
        assert_eq!(charge(&[(1_000, 0, 0), (0, 5, 0)], 900), 0);
    }

    #[test]
    fn what_the_disk_lost_less_what_is_listed_is_charged() {
        let all = u64::MAX;
        assert_eq!(charge(&[(1_000, 0, all), (700, 100, all)], 0), 200);
        assert_eq!(charge(&[(1_000, 0, 50), (700, 100, 50)], 0), 50, "such files are no larger");
        assert_eq!(charge(&[(1_000, 0, all), (991, 0, all)], 0), 0, "too little");
    }

    #[test]
    fn neither_removed_files_nor_space_that_others_free_hide_anything() {
        let all = u64::MAX;
        assert_eq!(charge(&[(600, 400, all), (1_000, 0, all), (600, 0, all)], 0), 400);
        assert_eq!(charge(&[(700, 0, all), (1_000, 0, all)], 0), 300);
    }

    #[test]
    fn written_bytes_count_where_other_programs_free_as_much_at_once() {
        assert_eq!(charge(&[(1_000, 0, u64::MAX), (1_000, 100, u64::MAX)], 300), 200);
    }

    #[test]
    fn a_message_on_its_way_is_not_charged() {
        let counts: Vec<_> = (0..9).map(|n| (0, 0, if n % 2 == 0 { u64::MAX } else { 0 })).collect();
        assert_eq!(charge(&counts, 900), 0);
    }
}
