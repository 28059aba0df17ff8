//! Memory that the machine keeps free while programs run. Each run's watch looks how much is left, the sooner
//! the less there is; below the line the program with the largest part ends (`RunRegistry::end_largest`). At
//! half as much again it must be a program for which the kernel holds much: nothing ordinary does that, and
//! it is fast. A program for which the kernel holds very much ends at any time.

use std::time::{Duration, Instant};

use super::descendants::Descendants;
use super::kernel_use::{KernelUse, count_files};
use super::lock_table::LockTable;
use crate::clock::now;
use crate::layers::{MemoryGauge, MemoryLeft};

const MIB: u64 = 1 << 20;
/// What must stay free: this, or a third of a smaller machine. Programs that fill memory take a part of it
/// before they are gone.
const RESERVE_BYTES: u64 = 160 * MIB;
/// The fastest that programs take memory, in bytes a millisecond: two processors that write into sockets.
const FASTEST: u64 = 4 * MIB;
const MIN_PAUSE: Duration = Duration::from_millis(5);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// How long the kernel may take to give back the memory of a program that was ended.
const SETTLE_TIME: Duration = Duration::from_millis(250);

/// The most memory that the kernel may hold for one program.
const KERNEL_BYTES: u64 = 256 * MIB;
/// A program with fewer descriptors is not looked at: full sockets at each would be half of that.
const FEW_FILES: u64 = 512;
/// The time between two looks at one program, and to the first: most programs end before.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// The same for the list of locks.
const LOCKS_PAUSE: Duration = Duration::from_millis(500);
/// Looks take one part in this number of the time.
const LOOK_SHARE: u32 = 4;

/// What to do about the memory that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryStep {
    Wait(Duration),
    /// End the largest program.
    EndLargest,
    /// End the program for which the kernel holds most memory, if that is much.
    EndLargestOfKernel,
}

/// The line, and when the next look is due. One for all runs.
#[derive(Debug, Default)]
pub(super) struct MemoryReserve {
    gauge: Option<MemoryGauge>,
    /// What must stay free. A half of what was free before, if that was little: others use the machine, too.
    floor: u64,
    next_look: Option<Instant>,
    settled_at: Option<Instant>,
    looked_at: Option<Instant>,
}

impl MemoryReserve {
    /// The line of the programs before does not hold for those after them.
    pub(super) fn reset(&mut self) {
        *self = Self { gauge: self.gauge.take(), ..Self::default() };
    }

    /// Looks, if it is time. `is_ending` says whether a program is being ended.
    pub(super) fn step(&mut self, is_ending: bool) -> MemoryStep {
        let at = now();
        if let Some(pause) = self.next_look.and_then(|next| next.checked_duration_since(at)) {
            return MemoryStep::Wait(pause);
        }
        let left = self.gauge.get_or_insert_with(MemoryGauge::new).read();
        let step = left.map_or(MemoryStep::Wait(MAX_PAUSE), |left| self.decide(left, is_ending, at));
        self.looked_at = Some(at);
        if let MemoryStep::Wait(pause) = step {
            self.next_look = at.checked_add(pause);
        }
        step
    }

    /// The time until the next look, after the programs were measured: measuring takes a part of the time.
    pub(super) fn pause_after_measurement(&mut self) -> Duration {
        let end = now();
        let took = self.looked_at.map_or(MIN_PAUSE, |start| end.saturating_duration_since(start));
        let pause = took.clamp(MIN_PAUSE, MAX_PAUSE);
        self.next_look = end.checked_add(pause);
        pause
    }

    fn decide(&mut self, left: MemoryLeft, is_ending: bool, at: Instant) -> MemoryStep {
        self.floor = self.floor.max(RESERVE_BYTES.min(left.total / 3).min(left.available / 2));
        if is_ending {
            self.settled_at = at.checked_add(SETTLE_TIME);
        }
        let early = self.floor.saturating_add(self.floor / 2);
        let margin = left.available.saturating_sub(early);
        if margin > 0 {
            return MemoryStep::Wait(Duration::from_millis(margin / FASTEST).clamp(MIN_PAUSE, MAX_PAUSE));
        }
        let is_settling = self.settled_at.is_some_and(|settled| at < settled);
        if is_ending || is_settling && left.available >= self.floor / 2 {
            return MemoryStep::Wait(MIN_PAUSE);
        }
        if left.available > self.floor { MemoryStep::EndLargestOfKernel } else { MemoryStep::EndLargest }
    }

    /// The least weight of a program that has to do with the lack of memory.
    pub(super) fn least_weight(&self) -> u64 {
        self.floor / 4
    }
}

/// Looks whether the kernel holds very much memory for one program.
#[derive(Debug)]
pub(super) struct KernelMemoryLimit {
    next_look: Duration,
    next_locks: Duration,
}

impl KernelMemoryLimit {
    pub(super) fn new() -> Self {
        Self { next_look: LOOK_PAUSE, next_locks: LOCKS_PAUSE }
    }

    /// Whether the program with this process id has exceeded it, if it is time for a look. One with more
    /// tasks than it may have ends for these: looks at all of them would let it grow.
    pub(super) fn is_exceeded(&mut self, pid: i32, max_tasks: u64, elapsed: Duration) -> bool {
        if elapsed < self.next_look {
            return false;
        }
        let start = now();
        let guest = Descendants::of(pid, max_tasks);
        if guest.tasks > max_tasks {
            return false;
        }
        let locks = if elapsed < self.next_locks { LockTable::default() } else { LockTable::read() };
        let has_many_files = || count_files(&guest.processes) > FEW_FILES;
        let is_exceeded = (!locks.is_short() || has_many_files())
            && KernelUse::of(pid, &locks).kernel_bytes() > KERNEL_BYTES;
        let rest = start.elapsed().saturating_mul(LOOK_SHARE);
        self.next_look = elapsed.saturating_add(rest.max(LOOK_PAUSE));
        if elapsed >= self.next_locks {
            self.next_locks = elapsed.saturating_add(rest.max(LOCKS_PAUSE));
        }
        is_exceeded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(available: u64) -> MemoryLeft {
        MemoryLeft { available: available * MIB, total: 512 * MIB }
    }

    fn ms(millis: u64) -> MemoryStep {
        MemoryStep::Wait(Duration::from_millis(millis))
    }

    #[test]
    fn p8_the_largest_program_ends_when_memory_falls_below_the_reserve() {
        let (mut reserve, at) = (MemoryReserve::default(), now());
        assert_eq!(reserve.decide(left(400), false, at), ms(40));
        assert_eq!(reserve.decide(left(280), false, at), ms(10));
        assert_eq!(reserve.decide(left(241), false, at), ms(5));
        assert_eq!(reserve.decide(left(240), false, at), MemoryStep::EndLargestOfKernel);
        assert_eq!(reserve.decide(left(161), false, at), MemoryStep::EndLargestOfKernel);
        assert_eq!(reserve.decide(left(160), false, at), MemoryStep::EndLargest);
        assert_eq!(reserve.least_weight(), 40 * MIB);
        let large = MemoryLeft { available: 64 << 30, total: 64 << 30 };
        assert_eq!(reserve.decide(large, false, at), ms(1_000), "a large machine is looked at rarely");
    }

    #[test]
    fn one_program_ends_at_a_time_unless_memory_goes_on_falling() {
        let (mut reserve, at) = (MemoryReserve::default(), now());
        reserve.decide(left(400), false, at);
        assert_eq!(reserve.decide(left(100), true, at), ms(5), "it is being ended");
        assert_eq!(reserve.decide(left(100), false, at), ms(5), "the kernel gives its memory back");
        assert_eq!(reserve.decide(left(60), false, at), MemoryStep::EndLargest);
        assert_eq!(reserve.decide(left(100), false, at + SETTLE_TIME), MemoryStep::EndLargest);
    }

    #[test]
    fn memory_that_others_use_is_not_the_fault_of_programs() {
        let (mut reserve, at) = (MemoryReserve::default(), now());
        assert_eq!(reserve.decide(left(100), false, at), ms(6), "half of what was free");
        assert_eq!(reserve.decide(left(51), false, at), MemoryStep::EndLargestOfKernel);
        assert_eq!(reserve.decide(left(50), false, at), MemoryStep::EndLargest);
        reserve.decide(left(300), false, at);
        assert_eq!(reserve.decide(left(100), false, at), MemoryStep::EndLargest, "it has come back");
        reserve.reset();
        assert_eq!(reserve.decide(left(100), false, at), ms(6));
    }
}
