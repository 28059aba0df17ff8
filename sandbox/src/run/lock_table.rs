//! The kernel's list of locks (`/proc/locks`): how many each process holds. No limit of the kernel bounds the
//! locks of a program, and no figure of a process counts them.

use std::collections::HashMap;
use std::io::Read;

/// A list that is shorter than this holds too few locks to matter.
const SHORT_BYTES: usize = 64 << 10;
/// The list is read up to here: the kernel writes each line anew, no lock can be taken meanwhile, and a
/// program can make millions.
const MOST_BYTES: u64 = 2 << 20;

/// Locks by process.
#[derive(Debug, Default)]
pub(super) struct LockTable(HashMap<i32, u64>);

impl LockTable {
    /// Reads the list; empty if it is short.
    pub(super) fn read() -> Self {
        let mut list = Vec::new();
        let read =
            std::fs::File::open("/proc/locks").and_then(|file| file.take(MOST_BYTES).read_to_end(&mut list));
        read.map_or_else(|_| Self::default(), |_| Self::from_list(&list))
    }

    fn from_list(list: &[u8]) -> Self {
        let mut counts: HashMap<i32, u64> = HashMap::new();
        if list.len() >= SHORT_BYTES {
            for owner in list.split(|byte| *byte == b'\n').filter_map(owner_of) {
                *counts.entry(owner).or_default() += 1;
            }
        }
        Self(counts)
    }

    /// The locks of these processes together.
    pub(super) fn of(&self, pids: &[i32]) -> u64 {
        if self.0.is_empty() {
            return 0;
        }
        pids.iter().filter_map(|pid| self.0.get(pid)).fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether there are no more locks than ordinary programs hold.
    pub(super) fn is_short(&self) -> bool {
        self.0.is_empty()
    }
}

/// The process of a line such as `1: POSIX  ADVISORY  WRITE 1234 00:2b:77 0 EOF`.
fn owner_of(line: &[u8]) -> Option<i32> {
    let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let mut words = words.skip(1).skip_while(|word| *word == b"->");
    if words.next()? != b"POSIX" {
        return None;
    }
    std::str::from_utf8(words.nth(2)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_counted_by_process() {
        let line = |pid: i32| format!("7: POSIX  ADVISORY  WRITE {pid} 00:2b:77 12 14\n");
        let list = line(5).repeat(3_000)
            + &line(6)
            + "8: -> POSIX  ADVISORY  READ 5 00:2b:77 0 EOF\n"
            + "9: FLOCK  ADVISORY  WRITE 5 00:2b:77 0 EOF\nx\n";
        let table = LockTable::from_list(list.as_bytes());
        assert_eq!((table.of(&[5]), table.of(&[6, 7]), table.of(&[5, 6])), (3_001, 1, 3_002));
    }

    #[test]
    fn a_short_list_does_not_matter() {
        let table = LockTable::from_list(b"1: POSIX  ADVISORY  WRITE 5 00:2b:77 0 EOF\n");
        assert!(table.is_short() && table.of(&[5]) == 0);
    }
}
