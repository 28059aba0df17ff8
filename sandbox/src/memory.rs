//! Memory of the process that embeds this crate: limits the allocator's arenas, and returns memory after the
//! start. It is in this crate because only `sys` may make foreign calls.

use crate::sys;
use std::ops::Range;

/// Limits the number of malloc arenas of the C library. By default each thread gets its own (up to eight per
/// processor), and each keeps freed memory. Call it before the first thread starts. Returns whether the C
/// library accepted it.
pub fn limit_malloc_arenas(max: i32) -> bool {
    sys::limit_malloc_arenas(max)
}

/// Returns memory that only the start of the process needed: free heap, and the mapping of its code. The
/// kernel maps 64 KiB around every instruction that runs for the first time, so nearly all code is mapped
/// after the start. Code that runs again is mapped again from the page cache without a read. Returns whether
/// the kernel accepted it.
pub fn release_startup_memory() -> bool {
    let here: fn() -> bool = release_startup_memory;
    sys::trim_malloc();
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
    code_mapping(&maps, here as usize).is_some_and(sys::unmap_code)
}

/// The mapping in `/proc/self/maps` that contains the address, if it is read-only code of a file. Changed
/// pages, and code outside of files (copied to huge pages), would be lost.
fn code_mapping(maps: &str, address: usize) -> Option<Range<usize>> {
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        range.contains(&address).then_some((range, rest))
    });
    found.filter(|(_, rest)| is_code_of_file(rest)).map(|(range, _)| range)
}

/// Parses the fields after the range: rights, offset, device, inode, path.
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
    fn only_file_backed_code_mappings_are_found() {
        let maps =
            "1000-3000 r-xp 00000000 08:01 7 /bin/nanoclaw\n3000-4000 rw-p 00002000 08:01 7 /bin/nanoclaw\n";
        assert_eq!(code_mapping(maps, 0x2fff), Some(0x1000..0x3000));
        assert_eq!(code_mapping(maps, 0x3000), None, "data");
        assert_eq!(code_mapping(maps, 0x9000), None, "nothing");
        assert_eq!(code_mapping("not a map", 0x1000), None);
        for rest in ["00:00 0", "00:00 0 [vdso]", "00:00 0 /bin/nanoclaw", "08:01 7", "08:01 7 [heap]"] {
            let maps = format!("1000-3000 r-xp 00000000 {rest}\n");
            assert_eq!(code_mapping(&maps, 0x2fff), None, "in no file: {rest}");
        }
    }

    #[test]
    fn code_still_runs_after_its_memory_is_released() {
        assert!(release_startup_memory());
        assert!(release_startup_memory(), "and again");
    }

    #[test]
    fn the_c_library_accepts_the_arena_limit() {
        assert!(limit_malloc_arenas(2));
    }
}
