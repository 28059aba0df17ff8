//! The programs that run now. When a resource that all share is short, the program that holds most of it is
//! ended.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::kernel_use::KernelUse;
use super::lock_table::LockTable;
use super::memory_reserve::{MemoryReserve, MemoryStep};

/// A program with fewer files and watches is not worth ending: something else has filled the table.
const LEAST_ENTRIES: u64 = 1_024;
/// A program with less memory is not worth ending.
const LEAST_WEIGHT: u64 = 8 << 20;
/// The time until the next look at memory while another watch looks, or a program ends.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// What all programs share, and what is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScarceResource {
    /// The kernel's tables of open files and epoll watches.
    Tables,
    /// Memory.
    Memory,
}

/// The running programs of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct RunRegistry {
    runs: Mutex<Vec<RegisteredRun>>,
    memory: Mutex<MemoryReserve>,
    next_id: AtomicU64,
}

#[derive(Clone, Debug)]
struct RegisteredRun {
    id: u64,
    pid: i32,
    /// Why it must end.
    must_end: Arc<OnceLock<ScarceResource>>,
}

/// A program in the registry, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunRegistration<'a> {
    registry: &'a RunRegistry,
    run: RegisteredRun,
}

impl RunRegistry {
    pub(crate) fn register(&self, pid: i32) -> RunRegistration<'_> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let run = RegisteredRun { id, pid, must_end: Arc::default() };
        let is_first = {
            let mut runs = self.lock();
            runs.push(run.clone());
            runs.len() == 1
        };
        if is_first {
            self.memory.lock().unwrap_or_else(PoisonError::into_inner).reset();
        }
        RunRegistration { registry: self, run }
    }

    /// Requests the end of the program that holds most. `None` if an earlier request is not fulfilled yet, or
    /// if no program holds much.
    pub(crate) fn end_largest(&self, scarce: ScarceResource) -> Option<KernelUse> {
        match scarce {
            ScarceResource::Tables => self.end_heaviest(scarce, LEAST_ENTRIES, KernelUse::table_entries),
            ScarceResource::Memory => self.end_heaviest(scarce, LEAST_WEIGHT, KernelUse::memory_weight),
        }
    }

    /// The same by another weight, which must be `least` at least.
    fn end_heaviest(
        &self,
        scarce: ScarceResource,
        least: u64,
        weigh: impl Fn(KernelUse) -> u64,
    ) -> Option<KernelUse> {
        let runs = self.lock().clone();
        if runs.iter().any(RegisteredRun::must_end) {
            return None;
        }
        let locks = LockTable::read();
        let mut measured: Vec<_> = runs.iter().map(|run| (run, KernelUse::of(run.pid, &locks))).collect();
        measured.sort_by_key(|(_, size)| std::cmp::Reverse(weigh(*size)));
        let (run, size) = heaviest(&measured, &weigh)?;
        if weigh(size) < least {
            return None;
        }
        run.must_end.set(scarce).ok().map(|()| size)
    }

    /// Looks how much memory is left, and ends a program if it is too little. Returns the time until the next
    /// look.
    fn look_at_memory(&self) -> Duration {
        // Another run's watch is looking.
        let Ok(mut memory) = self.memory.try_lock() else { return BUSY_PAUSE };
        let is_ending = self.lock().iter().any(RegisteredRun::must_end);
        let least = memory.least_weight().max(LEAST_WEIGHT);
        let weigh = match memory.step(is_ending) {
            MemoryStep::Wait(pause) => return pause,
            MemoryStep::EndLargest => KernelUse::memory_weight,
            MemoryStep::EndLargestOfKernel => KernelUse::kernel_bytes,
        };
        self.end_heaviest(ScarceResource::Memory, least, weigh);
        memory.pause_after_measurement()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RegisteredRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first of programs in falling order that stays heavier than the next when shared memory counts once.
fn heaviest<'a>(
    measured: &[(&'a RegisteredRun, KernelUse)],
    weigh: impl Fn(KernelUse) -> u64,
) -> Option<(&'a RegisteredRun, KernelUse)> {
    let mut best: Option<(&RegisteredRun, KernelUse)> = None;
    for (index, (run, size)) in measured.iter().enumerate() {
        let best_weight = best.map_or(0, |(_, size)| weigh(size));
        if best.is_some() && best_weight >= weigh(*size) {
            break;
        }
        let next = measured.get(index.saturating_add(1)).map_or(0, |(_, next)| weigh(*next));
        let exact = if next == 0 { *size } else { size.without_shared(run.pid, next.max(best_weight)) };
        if best.is_none() || weigh(exact) > best_weight {
            best = Some((run, exact));
        }
    }
    best
}

impl RegisteredRun {
    fn must_end(&self) -> bool {
        self.must_end.get().is_some()
    }
}

impl RunRegistration<'_> {
    /// Why the program is to be ended, if it is.
    pub(crate) fn must_end(&self) -> Option<ScarceResource> {
        self.run.must_end.get().copied()
    }

    /// Looks how much memory the machine has left. Returns the time until the next look.
    pub(super) fn look_at_memory(&self) -> Duration {
        self.registry.look_at_memory()
    }
}

impl Drop for RunRegistration<'_> {
    fn drop(&mut self) {
        self.registry.lock().retain(|run| run.id != self.run.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_programs_are_not_ended() {
        let registry = RunRegistry::default();
        for scarce in [ScarceResource::Tables, ScarceResource::Memory] {
            assert_eq!(registry.end_largest(scarce), None);
            let gone = registry.register(i32::MAX);
            assert_eq!(registry.end_largest(scarce), None);
            assert_eq!(gone.must_end(), None);
        }
        assert!(registry.lock().is_empty());
    }
}
