//! What one program holds: entries of tables that the kernel shares between all programs of a user, and
//! memory, its own and the kernel's.
//!
//! No limit of the kernel bounds the watches of one program: a process with `n` descriptors can hold more
//! than `n * n / 4` of them. Kernel memory is in no process's figures, so it is estimated from the number of
//! objects. The estimates are upper bounds for programs that may not enlarge buffers.

use std::collections::HashSet;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use super::descendants::{Descendants, GuestProcess, MOST_TASKS};
use super::lock_table::LockTable;
use crate::proc_text::figure;

/// Counting the watches of a program stops here: it is large enough. The rest is extrapolated.
const MOST_WATCHES: u64 = 131_072;
/// The descriptors of a program are not looked at beyond this: it is large enough, and memory may be falling
/// fast. The rest is extrapolated.
const ENOUGH_BYTES: u64 = 32 * MIB;
/// Processes that hold less are not worth a look at the pages that they share.
const SHARED_BYTES: u64 = 8 * MIB;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// A socket with full buffers of the usual size (`net.core.wmem_default`).
const SOCKET_BYTES: u64 = 256 * KIB;
/// A full pipe.
const PIPE_BYTES: u64 = 64 * KIB;
/// A file, an event descriptor or an epoll instance.
const FILE_BYTES: u64 = KIB;
const WATCH_BYTES: u64 = 256;
/// A lock takes 200 bytes, but the list of locks is read up to a bound only: each stands for many.
const LOCK_BYTES: u64 = 32 * KIB;
/// The sockets that one user may have in flight, full: two times the limit of open files. Those inside of
/// others in flight are counted nowhere.
const IN_FLIGHT_BYTES: u64 = 128 * MIB;

/// The target of a link to the descriptor of an epoll instance.
const EPOLL: &str = "anon_inode:[eventpoll]";
/// Starts the line of a watch in `fdinfo`.
const WATCH_LINE: &[u8] = b"tfd:";
/// Starts the line with the number of descriptors in flight to a socket in `fdinfo`.
const IN_FLIGHT_LINE: &str = "scm_fds:";

/// What a program and its descendants hold; of a large one, an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelUse {
    /// Descriptors of all its processes.
    pub files: u64,
    /// Epoll watches.
    pub watches: u64,
    /// Sockets.
    pub sockets: u64,
    /// Pipes.
    pub pipes: u64,
    /// POSIX locks.
    pub locks: u64,
    /// Descriptors that wait in its sockets to be received.
    pub in_flight: u64,
    /// Memory of its own.
    pub resident_bytes: u64,
}

impl KernelUse {
    /// Entries in the kernel's tables.
    pub(crate) fn table_entries(self) -> u64 {
        self.files.saturating_add(self.watches)
    }

    /// The most memory that the kernel may hold for it.
    pub(crate) fn kernel_bytes(self) -> u64 {
        let in_flight = if self.in_flight > 0 { IN_FLIGHT_BYTES } else { 0 };
        let parts = [
            (self.sockets, SOCKET_BYTES),
            (self.pipes, PIPE_BYTES),
            (self.files, FILE_BYTES),
            (self.watches, WATCH_BYTES),
            (self.locks, LOCK_BYTES),
        ];
        parts.iter().fold(in_flight, |sum, (count, bytes)| sum.saturating_add(count.saturating_mul(*bytes)))
    }

    /// How much it has to do with a lack of memory. Ordinary programs have memory of their own, and the
    /// kernel holds next to none for them: its memory counts twice.
    pub(crate) fn memory_weight(self) -> u64 {
        self.resident_bytes.saturating_add(self.kernel_bytes().saturating_mul(2))
    }

    /// Of a process and its descendants. Processes that end meanwhile count nothing.
    pub(super) fn of(pid: i32, locks: &LockTable) -> Self {
        let processes = Descendants::of(pid, MOST_TASKS).processes;
        let mut counter = Counter::default();
        for process in &processes {
            if counter.is_enough() {
                break;
            }
            counter.add_process(process);
        }
        let (files, pids) = (count_files(&processes), pids_of(&processes));
        Self { files, locks: locks.of(&pids), resident_bytes: resident_bytes(&pids), ..counter.finish(files) }
    }

    /// The same without the memory that its processes share; exact up to `enough` bytes.
    pub(super) fn without_shared(self, pid: i32, enough: u64) -> Self {
        let pids = pids_of(&Descendants::of(pid, MOST_TASKS).processes);
        let unshared = if pids.len() > 1 { unshared_bytes(&pids, enough) } else { self.resident_bytes };
        Self { resident_bytes: unshared.min(self.resident_bytes), ..self }
    }
}

fn pids_of(processes: &[GuestProcess]) -> Vec<i32> {
    processes.iter().map(|process| process.pid).collect()
}

/// The number of descriptors of processes: much cheaper than a look at each.
pub(super) fn count_files(processes: &[GuestProcess]) -> u64 {
    let counts = processes.iter().filter_map(descriptor_directory).map(|path| count_directory(&path));
    counts.fold(0, u64::saturating_add)
}

/// The links to the descriptors of a process.
fn descriptor_directory(process: &GuestProcess) -> Option<PathBuf> {
    process.live_thread().map(|thread| thread.join("fd"))
}

/// The size of such a directory is the number of its links since Linux 6.2, for every reader.
fn count_directory(path: &PathBuf) -> u64 {
    match std::fs::metadata(path).map_or(0, |data| data.len()) {
        0 => std::fs::read_dir(path).map_or(0, |links| u64::try_from(links.count()).unwrap_or(u64::MAX)),
        count => count,
    }
}

#[derive(Default)]
struct Counter {
    size: KernelUse,
    /// Names of sockets and pipes that were counted: processes share them.
    seen: HashSet<PathBuf>,
    epolls: u64,
    counted_epolls: u64,
}

impl Counter {
    fn is_enough(&self) -> bool {
        self.size.kernel_bytes() >= ENOUGH_BYTES
    }

    fn add_process(&mut self, process: &GuestProcess) {
        let Some(directory) = descriptor_directory(process) else { return };
        let Ok(links) = std::fs::read_dir(&directory) else {
            // Not ours to read, as in a container without CAP_SYS_PTRACE. Each may be a pipe.
            let hidden = count_directory(&directory);
            self.size.files = self.size.files.saturating_add(hidden);
            self.size.pipes = self.size.pipes.saturating_add(hidden / 2);
            return;
        };
        for link in links.flatten() {
            self.add_file(&link);
            if self.is_enough() {
                return;
            }
        }
    }

    fn add_file(&mut self, link: &DirEntry) {
        self.size.files = self.size.files.saturating_add(1);
        let Ok(target) = std::fs::read_link(link.path()) else { return };
        let name = target.to_string_lossy();
        let info = || {
            let thread =
                link.path().parent().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
            std::fs::read(thread.join("fdinfo").join(link.file_name())).unwrap_or_default()
        };
        if name == EPOLL {
            self.epolls += 1;
            if self.size.watches < MOST_WATCHES {
                self.counted_epolls += 1;
                self.size.watches = self.size.watches.saturating_add(watches(&info()));
            }
            return;
        }
        let (is_socket, is_pipe) = (name.starts_with("socket:"), name.starts_with("pipe:"));
        if (is_socket || is_pipe) && self.seen.insert(target.clone()) {
            self.size.sockets += u64::from(is_socket);
            self.size.pipes += u64::from(is_pipe);
            if is_socket {
                self.size.in_flight = self.size.in_flight.saturating_add(in_flight(&info()));
            }
        }
    }

    /// All `files` are like those that were looked at, and all epoll instances like those that were counted.
    fn finish(self, files: u64) -> KernelUse {
        let watches = self.size.watches.saturating_mul(self.epolls).checked_div(self.counted_epolls);
        let looked_at = self.size.files;
        let of_all = |count: u64| {
            let scaled = count.saturating_mul(files.max(looked_at)).checked_div(looked_at);
            scaled.unwrap_or(0)
        };
        KernelUse {
            watches: of_all(watches.unwrap_or(0)),
            sockets: of_all(self.size.sockets),
            pipes: of_all(self.size.pipes),
            ..self.size
        }
    }
}

/// The watches in the `fdinfo` of an epoll instance.
fn watches(info: &[u8]) -> u64 {
    let lines = info.split(|byte| *byte == b'\n').filter(|line| line.starts_with(WATCH_LINE));
    u64::try_from(lines.count()).unwrap_or(u64::MAX)
}

/// The descriptors in flight in the `fdinfo` of a unix socket.
pub(super) fn in_flight(info: &[u8]) -> u64 {
    figure(&String::from_utf8_lossy(info), IN_FLIGHT_LINE).unwrap_or(0)
}

/// The memory of processes that is in no file. Pages that they share since a fork count in each.
fn resident_bytes(pids: &[i32]) -> u64 {
    let of_process = |pid: &i32| kilobytes(&process_file(*pid, "status"), &["RssAnon:", "RssShmem:"]);
    pids.iter().map(of_process).fold(0, u64::saturating_add)
}

/// The same, but shared pages count once, as far as the kernel lets us see that. Stops above `enough`: the
/// kernel walks the page tables of each process.
fn unshared_bytes(pids: &[i32], enough: u64) -> u64 {
    let mut sum: u64 = 0;
    for pid in pids {
        if sum > enough {
            break;
        }
        let resident = resident_bytes(&[*pid]);
        let share = if resident < SHARED_BYTES {
            resident
        } else {
            kilobytes(&process_file(*pid, "smaps_rollup"), &["Pss_Anon:", "Pss_Shmem:"])
        };
        sum = sum.saturating_add(if share > 0 { share } else { resident });
    }
    sum
}

fn process_file(pid: i32, name: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

/// The sum of some figures of a file with lines "Name: 12 kB", in bytes.
fn kilobytes(text: &str, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| figure(text, name)).fold(0, u64::saturating_add)
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
    fn descriptors_in_flight_are_a_figure_of_their_socket() {
        assert_eq!(in_flight(b"pos:\t0\nflags:\t02\nmnt_id:\t10\nino:\t5\nscm_fds: 253\n"), 253);
        assert_eq!(in_flight(b"pos:\t0\n"), 0);
    }

    #[test]
    fn the_memory_of_this_process_and_its_objects_are_counted() {
        let pairs: Vec<_> = (0..10).map(|_| std::os::unix::net::UnixStream::pair().unwrap()).collect();
        let pid = i32::try_from(std::process::id()).unwrap();
        let size = KernelUse::of(pid, &LockTable::default());
        assert!(size.sockets >= 20 && size.files >= 20, "{size:?}");
        assert!(size.resident_bytes > 0 && size.in_flight == 0, "{size:?}");
        assert!(count_files(&Descendants::of(pid, MOST_TASKS).processes) >= 20);
        drop(pairs);
    }

    #[test]
    fn kernel_memory_weighs_more_than_memory_of_its_own() {
        let innocent =
            KernelUse { files: 60, pipes: 6, sockets: 4, resident_bytes: 150 * MIB, ..KernelUse::default() };
        let base = KernelUse { files: 500, resident_bytes: 20 * MIB, ..KernelUse::default() };
        for guilty in [
            KernelUse { sockets: 400, ..base },
            KernelUse { in_flight: 1, sockets: 2, ..base },
            KernelUse { locks: 10_000, ..base },
            KernelUse { watches: 500_000, ..base },
            KernelUse { pipes: 1_500, ..base },
            KernelUse { resident_bytes: 170 * MIB, ..base },
        ] {
            assert!(guilty.memory_weight() > innocent.memory_weight(), "{guilty:?}");
        }
    }

    #[test]
    fn what_was_not_looked_at_is_like_the_rest() {
        let size = KernelUse {
            files: 100,
            sockets: 90,
            pipes: 5,
            watches: 30,
            in_flight: 3,
            ..KernelUse::default()
        };
        let counter = Counter { size, epolls: 4, counted_epolls: 2, ..Counter::default() };
        let expected = KernelUse { sockets: 900, pipes: 50, watches: 600, ..size };
        assert_eq!(counter.finish(1_000), expected);
        assert_eq!(Counter::default().finish(0), KernelUse::default());
    }

    #[test]
    fn figures_in_kilobytes_are_added() {
        let status = "Name:\tRssAnon: 9 kB\nRssAnon:\t     100 kB\nRssFile:\t 7 kB\nRssShmem:\t 24 kB\n";
        assert_eq!(kilobytes(status, &["RssAnon:", "RssShmem:"]), 124 * KIB);
        assert_eq!(kilobytes("", &["RssAnon:"]), 0);
    }
}
