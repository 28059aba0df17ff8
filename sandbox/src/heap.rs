//! The memory of a process that embeds this crate: the C library's heaps limited, and what only the start needed given back.
//! Owns the words to the allocator and the kernel; they are here because `sys` is the only place for foreign calls.

use crate::sys;
use std::ops::Range;

/// Makes the C library share at most so many heaps among all threads. By default it gives each thread one of its own
/// (up to eight for each processor) and keeps in every one what has been freed there. Call it before the first thread
/// starts; whether it was taken.
pub fn limit_malloc_arenas(most: i32) -> bool {
    sys::limit_heaps(most)
}

/// Gives back what only the start of the process needed: free heap, and the mapping of its code. The kernel maps 64 KiB
/// around every instruction that runs for the first time, so a start leaves nearly all of the code mapped, most of it for
/// good; what runs again is mapped again from the page cache, without a read. Whether the kernel took it.
pub fn release_startup_memory() -> bool {
    let here: fn() -> bool = release_startup_memory;
    sys::trim_heaps();
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
    code_around(&maps, here as usize).is_some_and(sys::unmap_code)
}

/// The mapping of `/proc/self/maps` that holds the address, if it is code of a file that nobody writes to: what was written
/// to such pages, or lies in no file (code that was copied to huge pages), would be lost.
fn code_around(maps: &str, address: usize) -> Option<Range<usize>> {
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        range.contains(&address).then_some((range, rest))
    });
    found.filter(|(_, rest)| is_code_of_file(rest)).map(|(range, _)| range)
}

/// What stands behind the range: rights, offset, device, inode, path.
fn is_code_of_file(rest: &str) -> bool {
    let mut fields = rest.split_ascii_whitespace();
    let rights = fields.next();
    let inode = fields.nth(2).and_then(|inode| inode.parse::<u64>().ok());
    let has_path = fields.next().is_some_and(|path| path.starts_with('/'));
    rights == Some("r-xp") && inode.is_some_and(|inode| inode != 0) && has_path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_that_nobody_writes_to_is_found() {
        let maps =
            "1000-3000 r-xp 00000000 08:01 7 /bin/nanoclaw\n3000-4000 rw-p 00002000 08:01 7 /bin/nanoclaw\n";
        assert_eq!(code_around(maps, 0x2fff), Some(0x1000..0x3000));
        assert_eq!(code_around(maps, 0x3000), None, "data");
        assert_eq!(code_around(maps, 0x9000), None, "nothing");
        assert_eq!(code_around("not a map", 0x1000), None);
        for rest in ["00:00 0", "00:00 0 [vdso]", "00:00 0 /bin/nanoclaw", "08:01 7", "08:01 7 [heap]"] {
            let maps = format!("1000-3000 r-xp 00000000 {rest}\n");
            assert_eq!(code_around(&maps, 0x2fff), None, "in no file: {rest}");
        }
    }

    #[test]
    fn code_that_was_unmapped_runs_on() {
        assert!(release_startup_memory());
        assert!(release_startup_memory(), "and again");
    }

    #[test]
    fn the_c_library_takes_the_word() {
        assert!(limit_malloc_arenas(2));
    }
}
