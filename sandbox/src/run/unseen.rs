//! Charges a run for bytes in files that cannot be measured.
//!
//! The file system tells how much it has lost since the run began, and the kernel how much the run has
//! written. The larger one, less what can be listed, is what the run may hide. A run that holds no such file
//! is never charged, whatever other programs do. `write_bytes` alone would not do: `fallocate` and tmpfs do
//! not add to it.

use std::time::Duration;

use super::descendants::Descendants;

/// How long such a file must be held: a message is on its way for a moment, and a program that starts cannot
/// be read yet.
const PATIENCE: Duration = Duration::from_millis(250);
/// Fewer bytes are never charged.
const LEAST_BYTES: u64 = 10_000_000;

/// What is known about a run that may hide bytes.
#[derive(Debug)]
pub(super) struct UnseenBytes {
    free_at_start: u64,
    /// What the run had listed at the first count.
    listed_at_start: Option<u64>,
    /// When it was first seen with files that cannot be measured.
    since: Option<Duration>,
}

/// What one count found.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedBytes {
    /// What the file system had free before the count.
    pub free: u64,
    /// What can be listed.
    pub listed: u64,
    /// What files may have that cannot be measured, at most.
    pub unmeasured: u64,
}

impl UnseenBytes {
    /// For a run that begins now. `listed` is what it can list now, if that is known.
    pub(super) fn new(free: u64, listed: Option<u64>) -> Self {
        Self { free_at_start: free, listed_at_start: listed, since: None }
    }

    /// The bytes that the run hides, as far as is known. `written` is asked for only if it matters.
    pub(super) fn charge(
        &mut self,
        elapsed: Duration,
        now: CountedBytes,
        written: impl FnOnce() -> u64,
    ) -> u64 {
        let listed_at_start = *self.listed_at_start.get_or_insert(now.listed);
        if now.unmeasured == 0 {
            self.since = None;
            return 0;
        }
        let since = *self.since.get_or_insert(elapsed);
        if elapsed.saturating_sub(since) < PATIENCE {
            return 0;
        }
        let before = self.free_at_start.saturating_add(listed_at_start);
        let lost = before.saturating_sub(now.free.saturating_add(now.listed));
        let rewritten = written().saturating_sub(now.listed.saturating_sub(listed_at_start));
        let charge = lost.max(rewritten).min(now.unmeasured);
        if charge < LEAST_BYTES { 0 } else { charge }
    }
}

/// What these processes, and those that they have reaped, have written to disks.
pub(super) fn written_bytes(guest: &Descendants) -> u64 {
    let mut written: u64 = 0;
    for process in &guest.processes {
        let text = std::fs::read_to_string(format!("/proc/{}/io", process.pid)).unwrap_or_default();
        let figure = |name: &str| -> u64 {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            found.unwrap_or(0)
        };
        let kept = figure("write_bytes:").saturating_sub(figure("cancelled_write_bytes:"));
        written = written.saturating_add(kept);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;
    const LATER: Duration = Duration::from_secs(1);

    fn counted(free: u64, listed: u64, unmeasured: u64) -> CountedBytes {
        CountedBytes { free: free * MB, listed: listed * MB, unmeasured: unmeasured.saturating_mul(MB) }
    }

    /// The charge of a run that has held such files for long.
    fn charge(now: CountedBytes, written: u64) -> u64 {
        let mut unseen = UnseenBytes::new(1_000 * MB, Some(0));
        unseen.charge(Duration::ZERO, now, || written * MB);
        unseen.charge(LATER, now, || written * MB) / MB
    }

    #[test]
    fn a_run_without_such_files_is_not_charged_whatever_the_disk_loses() {
        assert_eq!(charge(counted(0, 5, 0), 900), 0);
    }

    #[test]
    fn what_the_disk_lost_less_what_is_listed_is_charged() {
        assert_eq!(charge(counted(700, 100, u64::MAX), 0), 200);
        assert_eq!(charge(counted(700, 100, 50), 0), 50, "such files are no larger");
        assert_eq!(charge(counted(991, 0, u64::MAX), 0), 0, "too little");
    }

    #[test]
    fn removing_listed_files_hides_no_others() {
        let mut unseen = UnseenBytes::new(1_000 * MB, None);
        unseen.charge(Duration::ZERO, counted(1_000, 400, u64::MAX), || 0);
        assert_eq!(unseen.charge(LATER, counted(1_000, 0, u64::MAX), || 0), 400 * MB);
    }

    #[test]
    fn written_bytes_count_where_other_programs_free_as_much() {
        assert_eq!(charge(counted(1_000, 100, u64::MAX), 300), 200);
    }

    #[test]
    fn a_message_on_its_way_is_not_charged() {
        let mut unseen = UnseenBytes::new(1_000 * MB, Some(0));
        for ms in (0..1_000).step_by(100) {
            let unmeasured = if ms % 200 == 0 { u64::MAX } else { 0 };
            assert_eq!(unseen.charge(Duration::from_millis(ms), counted(0, 0, unmeasured), || 900 * MB), 0);
        }
    }
}
