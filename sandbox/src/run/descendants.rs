//! A program's processes, as `/proc` lists them.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most bytes of one process id and its space in a list of children.
const PID_BYTES: u64 = 8;

/// No program may have more threads (`limits`), so no more are looked at.
pub(crate) const MOST_TASKS: u64 = 4_096;

/// A process and its descendants. No walk looks at much more than it has to: a program that forks without end
/// would keep it busy until the machine is full.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// The first process included.
    pub processes: Vec<GuestProcess>,
    /// Their threads.
    pub tasks: u64,
}

/// A process and its threads. The threads share their memory and their descriptors (`policy`).
#[derive(Debug)]
pub(crate) struct GuestProcess {
    pub pid: i32,
    /// Their directories in `/proc`.
    threads: Vec<PathBuf>,
}

impl GuestProcess {
    /// A thread that has not exited. The main thread may exit before the others; then the directory of the
    /// process shows no descriptors.
    pub(crate) fn live_thread(&self) -> Option<&Path> {
        let thread = match self.threads.as_slice() {
            [only] => Some(only),
            threads => threads.iter().find(|thread| has_memory(thread)),
        };
        thread.map(PathBuf::as_path)
    }

    /// Whether it has not exited. Only root can read what is left of a process.
    pub(crate) fn is_alive(&self) -> bool {
        self.threads.iter().any(|thread| has_memory(thread))
    }
}

fn has_memory(thread: &Path) -> bool {
    std::fs::read_to_string(thread.join("statm")).is_ok_and(|pages| !pages.starts_with("0 "))
}

impl Descendants {
    /// Of this process, until more than `max_tasks` threads are found.
    pub(crate) fn of(pid: i32, max_tasks: u64) -> Self {
        let mut found = Self { processes: Vec::new(), tasks: 0 };
        let mut pending = vec![pid];
        while let Some(pid) = pending.pop()
            && found.tasks <= max_tasks
        {
            let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
            let threads: Vec<PathBuf> = tasks.map(|task| task.path()).collect();
            found.tasks += u64::try_from(threads.len()).unwrap_or(u64::MAX);
            for thread in &threads {
                pending.extend(first_children(thread, max_tasks).unwrap_or_default());
            }
            found.processes.push(GuestProcess { pid, threads });
        }
        found
    }
}

/// At least `max` + 1 of a thread's children, if it has so many. The kernel walks the whole list again for
/// each further page, and a fork bomb makes it long.
fn first_children(thread: &Path, max: u64) -> io::Result<Vec<i32>> {
    let mut text = String::new();
    let bytes = max.saturating_add(1).saturating_mul(PID_BYTES);
    std::fs::File::open(thread.join("children"))?.take(bytes).read_to_string(&mut text)?;
    // A number that was cut off is that of another process.
    let whole = text.rsplit_once(' ').map_or("", |(whole, _)| whole);
    Ok(whole.split_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}
