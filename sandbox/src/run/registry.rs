//! The programs that run now, and what each takes from the tables that the kernel shares between all programs
//! of a user: open files and epoll watches. When such a table is full, the largest program is ended.
//!
//! No limit of the kernel bounds the watches of one program: a process with `n` descriptors can hold more
//! than `n * n / 4` of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::descendants::{Descendants, MOST_TASKS};

/// Counting the watches of a program stops here: it is large enough.
const MOST_WATCHES: u64 = 16_384;
/// Counting the files of a program stops here.
const MOST_FILES: u64 = 65_536;
/// A program with fewer files and watches is not worth ending: something else has filled the table.
const LEAST_USE: u64 = 1_024;
/// The target of a link to the descriptor of an epoll instance.
const EPOLL: &str = "anon_inode:[eventpoll]";
/// Starts the line of a watch in `fdinfo`.
const WATCH_LINE: &[u8] = b"tfd:";

/// What a program takes from the kernel's tables, counted up to a bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelUse {
    /// Descriptors of all its processes.
    pub files: u64,
    /// Epoll watches.
    pub watches: u64,
}

impl KernelUse {
    fn total(self) -> u64 {
        self.files.saturating_add(self.watches)
    }
}

/// The running programs of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct RunRegistry {
    runs: Mutex<Vec<RegisteredRun>>,
    next_id: AtomicU64,
}

#[derive(Clone, Debug)]
struct RegisteredRun {
    id: u64,
    pid: i32,
    must_end: Arc<AtomicBool>,
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
        self.lock().push(run.clone());
        RunRegistration { registry: self, run }
    }

    /// Requests the end of the largest program. `None` if an earlier request is not fulfilled yet, or if no
    /// program is large.
    pub(crate) fn end_largest(&self) -> Option<KernelUse> {
        let runs = self.lock().clone();
        if runs.iter().any(RegisteredRun::must_end) {
            return None;
        }
        let measured = runs.iter().map(|run| (run, use_of(run.pid)));
        let (run, size) = measured.max_by_key(|(_, size)| size.total())?;
        if size.total() < LEAST_USE {
            return None;
        }
        run.must_end.store(true, Ordering::Relaxed);
        Some(size)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<RegisteredRun>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegisteredRun {
    fn must_end(&self) -> bool {
        self.must_end.load(Ordering::Relaxed)
    }
}

impl RunRegistration<'_> {
    /// Whether the program is to be ended.
    pub(crate) fn must_end(&self) -> bool {
        self.run.must_end()
    }
}

impl Drop for RunRegistration<'_> {
    fn drop(&mut self) {
        self.registry.lock().retain(|run| run.id != self.run.id);
    }
}

/// The use of a program and its descendants. Processes that end meanwhile count nothing.
fn use_of(pid: i32) -> KernelUse {
    let mut size = KernelUse::default();
    for process in Descendants::of(pid, MOST_TASKS).processes {
        let Some(thread) = process.live_thread() else { continue };
        let Ok(links) = std::fs::read_dir(thread.join("fd")) else { continue };
        for link in links.flatten() {
            size.files = size.files.saturating_add(1);
            let is_epoll = std::fs::read_link(link.path()).is_ok_and(|target| target == Path::new(EPOLL));
            if is_epoll && size.watches < MOST_WATCHES {
                let info = thread.join("fdinfo").join(link.file_name());
                size.watches = size.watches.saturating_add(watches(&std::fs::read(info).unwrap_or_default()));
            }
        }
        if size.files >= MOST_FILES {
            break;
        }
    }
    size
}

/// The watches in the `fdinfo` of an epoll instance.
fn watches(info: &[u8]) -> u64 {
    let lines = info.split(|byte| *byte == b'\n').filter(|line| line.starts_with(WATCH_LINE));
    u64::try_from(lines.count()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_are_counted_by_their_lines() {
        let info = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t57\ntfd:        3 events:       19 data: 3\ntfd:  4 events: 1\n";
        assert_eq!(watches(info), 2);
    }

    #[test]
    fn small_programs_are_not_ended() {
        let registry = RunRegistry::default();
        assert_eq!(registry.end_largest(), None);
        let gone = registry.register(i32::MAX);
        assert_eq!(registry.end_largest(), None);
        assert!(!gone.must_end());
        drop(gone);
        assert!(registry.lock().is_empty());
    }
}
