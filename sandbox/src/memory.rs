//! Memory of the process that embeds this crate: limits the allocator's arenas, and returns memory after the
//! start and after a peak. It is in this crate because only `sys` may make foreign calls.

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

/// Returns free heap to the kernel, if more than `max_bytes` of the process's memory is free heap. Returns
/// whether it did. The C library returns only the end of a heap by itself.
pub fn release_free_memory(max_bytes: usize) -> bool {
    let is_too_much =
        anonymous_bytes().is_some_and(|bytes| bytes.saturating_sub(sys::allocated_bytes()) > max_bytes);
    if is_too_much {
        sys::trim_malloc();
    }
    is_too_much
}

/// Resident memory of the process that is no file's.
fn anonymous_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1024)
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

    /// Reads the memory of the whole process, so it runs in a process of its own.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "measures in a process of its own")]
    fn free_memory_between_used_blocks_is_returned() {
        const IN_CHILD: &str = "NANOCLAW_TEST_FREE_MEMORY";
        if std::env::var_os(IN_CHILD).is_none() {
            let name = "memory::tests::free_memory_between_used_blocks_is_returned";
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            let child = child.args([name, "--exact", "--test-threads=1"]).env(IN_CHILD, "1");
            let output = child.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let blocks: Vec<Vec<u8>> = (0..64 * 1024).map(|n| vec![1; 1024 + n % 2]).collect();
        // Each block that stays keeps the C library from returning the memory before it.
        let used: Vec<Vec<u8>> =
            blocks.into_iter().enumerate().filter(|(n, _)| n % 256 == 0).map(|(_, block)| block).collect();
        let before = anonymous_bytes().unwrap();
        assert!(before > 60 << 20, "{before}");
        assert!(release_free_memory(16 << 20));
        let after = anonymous_bytes().unwrap();
        assert!(after < 24 << 20, "{after} of {before} bytes");
        assert!(!release_free_memory(16 << 20), "once is enough");
        drop(used);
    }

    #[test]
    fn the_c_library_accepts_the_arena_limit() {
        assert!(limit_malloc_arenas(2));
    }
}
