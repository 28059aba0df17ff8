//! A program's processes, as `/proc` lists them.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::tree::BLOCK_BYTES;

/// The most bytes of one process id and its space in a list of children.
const PID_BYTES: u64 = 8;

/// No program may have more threads (`limits`), so no more are looked at.
pub(crate) const MOST_TASKS: u64 = 4_096;

/// A process and its descendants. No walk looks at much more than it has to: a program that forks without end
/// would keep it busy until the machine is full.
#[derive(Debug)]
pub(crate) struct Descendants {
    /// The process ids, the first process included.
    pub pids: Vec<i32>,
    /// Their threads.
    pub tasks: u64,
}

impl Descendants {
    /// Of this process, until more than `max_tasks` threads are found.
    pub(crate) fn of(pid: i32, max_tasks: u64) -> Self {
        let mut found = Self { pids: Vec::new(), tasks: 0 };
        let mut pending = vec![pid];
        while let Some(pid) = pending.pop()
            && found.tasks <= max_tasks
        {
            found.pids.push(pid);
            let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for task in tasks.flatten() {
                found.tasks += 1;
                pending.extend(first_children(&task.path(), max_tasks).unwrap_or_default());
            }
        }
        found
    }

    /// The bytes of files without a name on a device that they hold open. A server without privileges cannot
    /// see the files of every program: `open_files` and `file_size_bytes` bound those.
    pub(crate) fn nameless_bytes(&self, device: u64) -> u64 {
        let mut files = BTreeMap::new();
        for pid in &self.pids {
            let Ok(links) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
            for file in links.flatten().filter_map(|link| std::fs::metadata(link.path()).ok()) {
                if file.nlink() == 0 && file.is_file() && file.dev() == device {
                    files.insert(file.ino(), file.blocks().saturating_mul(BLOCK_BYTES));
                }
            }
        }
        files.into_values().fold(0, u64::saturating_add)
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
