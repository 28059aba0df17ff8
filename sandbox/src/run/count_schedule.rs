//! Decides when a guest's directory is counted: before the guest can have exceeded its limit, but within a
//! share of the time.
//!
//! Counting a large tree takes tens of milliseconds, and in that time a guest makes thousands of files. The
//! free space of the file system is known at once: as long as it has lost less than the directory may still
//! gain, the limit is not exceeded. Links need no space; for them the growth between two counts is the guide.

use std::time::Duration;

use rustix::fs::StatVfs;

/// The pauses between two looks at the file system.
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_millis(50);
/// A tree that does not grow may be counted in one part in this number of the time; one that may be near its
/// limit in half of the time.
const QUIET_SHARE: u32 = 10;
/// Hardly any guest grows faster, in a second.
const FASTEST: TreeSize = TreeSize { bytes: 4 << 30, entries: 200_000 };
/// The least growth that leads to a count, as one part in this number of the limit.
const LEAST_GROWTH: u64 = 64;

/// Bytes and entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSize {
    pub bytes: u64,
    pub entries: u64,
}

impl TreeSize {
    /// What a file system has free for everyone.
    pub(super) fn free(stat: &StatVfs) -> Self {
        Self { bytes: stat.f_bavail.saturating_mul(stat.f_frsize), entries: stat.f_favail }
    }

    pub(super) fn times(self, factor: u64) -> Self {
        self.each(Self { bytes: factor, entries: factor }, u64::saturating_mul)
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Whether a part of it is as large as the other's.
    fn reaches(self, other: Self) -> bool {
        self.bytes >= other.bytes || self.entries >= other.entries
    }

    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self { bytes: of(self.bytes, other.bytes), entries: of(self.entries, other.entries) }
    }

    /// The time until something that grows by `growth` in `time` has grown by this; `None`: never.
    fn time_at(self, growth: Self, time: Duration) -> Option<Duration> {
        let part = |left: u64, growth: u64| {
            let nanos = u128::from(left) * time.as_nanos() / u128::from((growth > 0).then_some(growth)?);
            Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        };
        part(self.bytes, growth.bytes).into_iter().chain(part(self.entries, growth.entries)).min()
    }
}

/// When a directory is counted next. All times are since the start of the run.
#[derive(Debug)]
pub(super) struct CountSchedule {
    limit: TreeSize,
    /// The last count, its time, and what the file system had free before it.
    counted: TreeSize,
    counted_at: Duration,
    free: TreeSize,
    next_look: Duration,
    next_count: Duration,
    /// No count before this time, whatever the file system shows.
    pause_end: Duration,
    /// The same for a directory that may still gain much.
    quiet_end: Duration,
}

impl CountSchedule {
    /// For a directory with this limit; `free` is what its file system has now.
    pub(super) fn new(limit: TreeSize, free: TreeSize) -> Self {
        Self {
            limit,
            counted: TreeSize::default(),
            counted_at: Duration::ZERO,
            free,
            next_look: Duration::ZERO,
            next_count: MAX_PAUSE,
            pause_end: Duration::ZERO,
            quiet_end: Duration::ZERO,
        }
    }

    /// The time until the file system should be looked at.
    pub(super) fn pause(&self, elapsed: Duration) -> Duration {
        self.next_look.saturating_sub(elapsed)
    }

    /// Whether to count now, given what the file system has free now. The next look is due before it can have
    /// lost `margin`.
    pub(super) fn is_due(&mut self, elapsed: Duration, free: TreeSize, margin: TreeSize) -> bool {
        let (left, lost) = (self.left(), self.free.minus(free));
        let is_near = lost.reaches(left) && elapsed >= self.pause_end;
        self.plan_look(elapsed, left.minus(lost).each(margin, u64::min));
        is_near || elapsed >= self.next_count
    }

    /// Whether to count a guest on a nearly full file system: at the start, and when space was lost.
    pub(super) fn may_count(&self, elapsed: Duration, free: TreeSize) -> bool {
        let is_first = self.counted_at.is_zero();
        is_first || (free != self.free && elapsed >= self.quiet_end)
    }

    /// Records a count that began at `elapsed`, took this long, and before which the file system had this
    /// much free.
    pub(super) fn record(&mut self, elapsed: Duration, took: Duration, size: TreeSize, free: TreeSize) {
        let end = elapsed + took;
        let growth = size.minus(self.counted);
        let since = end.saturating_sub(self.counted_at);
        (self.counted, self.counted_at, self.free) = (size, end, free);
        let quiet = (took * QUIET_SHARE).max(MAX_PAUSE);
        let busy = took.max(MIN_PAUSE);
        let until_full = self.left().time_at(growth, since).unwrap_or(quiet);
        self.next_count = end + until_full.clamp(busy, quiet.max(busy));
        (self.pause_end, self.quiet_end) = (end + busy, end + (took * QUIET_SHARE).max(MIN_PAUSE));
        self.plan_look(end, self.left());
    }

    /// The next look is due before the fastest guest can have gained `left`.
    fn plan_look(&mut self, elapsed: Duration, left: TreeSize) {
        let pause = left.time_at(FASTEST, Duration::from_secs(1)).unwrap_or(MAX_PAUSE);
        let look = elapsed + pause.clamp(MIN_PAUSE, MAX_PAUSE);
        self.next_look = look.min(self.next_count.max(elapsed + MIN_PAUSE));
    }

    /// What the directory may still gain. Never nothing: one that is full may shrink again.
    fn left(&self) -> TreeSize {
        let least = self.limit.each(TreeSize::default(), |limit, _| (limit / LEAST_GROWTH).max(1));
        self.limit.minus(self.counted).each(least, u64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: TreeSize = TreeSize { bytes: 1 << 30, entries: 20_000 };
    const FREE: TreeSize = TreeSize { bytes: 1 << 40, entries: 10_000_000 };
    const LONGEST: Duration = Duration::from_secs(60);

    /// A guest with `at_start` entries that makes `rate` more a second; a count takes 2 µs an entry.
    struct SimulatedGuest {
        at_start: u64,
        rate: u64,
        /// Whether its entries need free space; names of one file do not.
        needs_space: bool,
        /// What other guests make a second.
        others: u64,
    }

    /// When a simulated run ends, how many entries it has made then, and the time of all counts.
    struct SimulatedEnd {
        entries: u64,
        counting: Duration,
        elapsed: Duration,
    }

    impl SimulatedGuest {
        fn entries(&self, at: Duration) -> u64 {
            self.at_start + made(self.rate, at)
        }

        fn free(&self, at: Duration) -> TreeSize {
            let own = if self.needs_space { made(self.rate, at) } else { 0 };
            TreeSize { entries: FREE.entries - own - made(self.others, at), ..FREE }
        }

        /// Watches until the limit is exceeded. A loaded machine wakes the watcher `delay` late.
        fn watch(&self, delay: Duration) -> SimulatedEnd {
            let mut schedule = CountSchedule::new(LIMIT, self.free(Duration::ZERO));
            let (mut elapsed, mut counting, mut counted) = (Duration::ZERO, Duration::ZERO, 0);
            while elapsed < LONGEST && counted <= LIMIT.entries {
                let free = self.free(elapsed);
                if schedule.is_due(elapsed, free, FREE) {
                    counted = self.entries(elapsed);
                    let took = Duration::from_micros(2 * counted.min(LIMIT.entries));
                    schedule.record(elapsed, took, TreeSize { bytes: 0, entries: counted }, free);
                    (elapsed, counting) = (elapsed + took, counting + took);
                }
                elapsed += schedule.pause(elapsed) + delay;
            }
            SimulatedEnd { entries: self.entries(elapsed), counting, elapsed }
        }
    }

    fn made(rate: u64, at: Duration) -> u64 {
        u64::try_from(u128::from(rate) * at.as_micros() / 1_000_000).unwrap()
    }

    #[test]
    fn p8_a_fast_guest_is_counted_before_it_has_made_half_as_much_again() {
        for rate in [1_000, 20_000, 50_000, 100_000, 200_000] {
            for at_start in [0, 15_000] {
                for needs_space in [true, false] {
                    let guest = SimulatedGuest { at_start, rate, needs_space, others: 0 };
                    let end = guest.watch(Duration::from_millis(1));
                    // The count itself and the last pause take time, too.
                    assert!(
                        (20_001..30_000 + rate / 10).contains(&end.entries),
                        "{at_start} + {rate}/s, {needs_space}: {} entries",
                        end.entries
                    );
                }
            }
        }
    }

    #[test]
    fn counting_takes_a_tenth_of_the_time_of_a_quiet_guest() {
        for entries in [10, 1_000, 19_900] {
            let guest = SimulatedGuest { at_start: entries, rate: 0, needs_space: true, others: 0 };
            let end = guest.watch(Duration::ZERO);
            assert!(end.counting <= end.elapsed / 10, "{entries}: {:?} of {:?}", end.counting, end.elapsed);
        }
    }

    #[test]
    fn counting_takes_half_of_the_time_at_most_whatever_other_guests_do() {
        let guest = SimulatedGuest { at_start: 19_900, rate: 0, needs_space: true, others: 100_000 };
        let end = guest.watch(Duration::ZERO);
        assert!(end.counting <= end.elapsed / 2 + MAX_PAUSE, "{:?} of {:?}", end.counting, end.elapsed);
    }

    #[test]
    fn the_file_system_is_looked_at_more_often_near_the_limit() {
        let mut schedule = CountSchedule::new(LIMIT, FREE);
        assert!(!schedule.is_due(Duration::ZERO, FREE, FREE));
        assert_eq!(schedule.pause(Duration::ZERO), MAX_PAUSE);
        let near = TreeSize { entries: FREE.entries - 19_999, ..FREE };
        assert!(!schedule.is_due(MIN_PAUSE, near, FREE));
        assert_eq!(schedule.pause(MIN_PAUSE), MIN_PAUSE);
        let over = TreeSize { entries: FREE.entries - 20_000, ..FREE };
        assert!(schedule.is_due(2 * MIN_PAUSE, over, FREE));
        // The same where the file system itself is nearly full.
        let mut schedule = CountSchedule::new(LIMIT, FREE);
        assert!(!schedule.is_due(Duration::ZERO, FREE, TreeSize { bytes: 1 << 20, entries: 10_000 }));
        assert_eq!(schedule.pause(Duration::ZERO), MIN_PAUSE);
    }
}
