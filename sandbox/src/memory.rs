//! Memory of the process that embeds this crate: limits the allocator's arenas, and returns memory after the
//! start and after a peak. It is in this crate because only `sys` may make foreign calls.

use crate::proc_text::figure;
use crate::sys;
use std::ops::Range;

/// Limits the number of malloc arenas of the C library. By default each thread gets its own (up to eight per
/// processor), and each keeps freed memory. Call it before the first thread starts. Returns whether the C
/// library accepted it.
pub fn limit_malloc_arenas(max: i32) -> bool {
    sys::limit_malloc_arenas(max)
}

/// Returns memory that only the start of the process needed: free heap, and the mapping of its code and its
/// constants. The kernel maps 64 KiB around every instruction that runs for the first time, so nearly all
/// code is mapped after the start. What is used again is mapped again from the page cache without a read.
/// Returns whether the kernel accepted it.
pub fn release_startup_memory() -> bool {
    let here: fn() -> bool = release_startup_memory;
    sys::trim_malloc();
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return false };
    let mappings = unwritten_mappings(&maps, here as usize);
    !mappings.is_empty() && mappings.into_iter().all(sys::unmap_unwritten)
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
    usize::try_from(figure(&status, "RssAnon:")?).ok()
}

/// A line of `/proc/self/maps`, if it maps a file.
#[derive(PartialEq)]
struct FileMapping<'a> {
    range: Range<usize>,
    rights: &'a str,
    /// Where it begins in the file, in hexadecimal digits.
    offset: &'a str,
    /// Device and inode.
    file: (&'a str, u64),
}

/// The mappings in `/proc/self/maps` that hold what their file holds: the one that contains the address, if
/// it is read-only code of a file, and the constants at the beginning of that file. The loader changes later
/// parts of a file only. Changed pages, and code outside of files (copied to huge pages), would be lost.
fn unwritten_mappings(maps: &str, address: usize) -> Vec<Range<usize>> {
    let mappings: Vec<FileMapping<'_>> = maps.lines().filter_map(file_mapping).collect();
    let is_code = |found: &&FileMapping<'_>| found.range.contains(&address) && found.rights == "r-xp";
    let Some(code) = mappings.iter().find(is_code) else { return Vec::new() };
    let is_at_start = |found: &FileMapping<'_>| found.offset.bytes().all(|digit| digit == b'0');
    let is_constant = |found: &FileMapping<'_>| found.rights == "r--p" && is_at_start(found);
    let is_unwritten = |found: &&FileMapping<'_>| *found == code || is_constant(found);
    let of_file = mappings.iter().filter(|found| found.file == code.file);
    of_file.filter(is_unwritten).map(|found| found.range.clone()).collect()
}

/// Parses the fields: range, rights, offset, device, inode, path.
fn file_mapping(line: &str) -> Option<FileMapping<'_>> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
    let (rights, offset) = (fields.next()?, fields.next()?);
    let file = (fields.next()?, fields.next()?.parse().ok().filter(|inode| *inode != 0)?);
    fields.next().filter(|path| path.starts_with('/'))?;
    Some(FileMapping { range, rights, offset, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_and_constants_of_the_file_count_as_unwritten() {
        let maps = "1000-2000 r--p 00000000 08:01 7 /bin/nanoclaw\n\
            2000-4000 r-xp 00001000 08:01 7 /bin/nanoclaw\n\
            4000-5000 r--p 00003000 08:01 7 /bin/nanoclaw\n\
            5000-6000 rw-p 00004000 08:01 7 /bin/nanoclaw\n\
            6000-7000 r--p 00000000 08:01 8 /lib/libc.so.6\n\
            7000-8000 r--p 00000000 08:02 7 /lib/other\n";
        assert_eq!(unwritten_mappings(maps, 0x3fff), [0x1000..0x2000, 0x2000..0x4000]);
        assert!(unwritten_mappings(maps, 0x4000).is_empty(), "the loader has written it");
        assert!(unwritten_mappings(maps, 0x5000).is_empty(), "data");
        assert!(unwritten_mappings(maps, 0x9000).is_empty(), "nothing");
        assert!(unwritten_mappings("not a map", 0x1000).is_empty());
        for rest in ["00:00 0", "00:00 0 [vdso]", "00:00 0 /bin/nanoclaw", "08:01 7", "08:01 7 [heap]"] {
            let maps = format!("1000-3000 r-xp 00000000 {rest}\n");
            assert!(unwritten_mappings(&maps, 0x2fff).is_empty(), "in no file: {rest}");
        }
    }

    #[test]
    fn the_mappings_of_this_process_have_no_page_of_their_own() {
        let here: fn() -> bool = release_startup_memory;
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let found = unwritten_mappings(&smaps, here as usize);
        assert!(!found.is_empty());
        for range in found {
            let line = format!("{:x}-{:x} ", range.start, range.end);
            let figures = smaps.lines().skip_while(|other| !other.starts_with(&line)).skip(1);
            let private = figures.filter(|line| line.starts_with("Anonymous:") || line.starts_with("Swap:"));
            for figure in private.take(2) {
                assert!(figure.ends_with(" 0 kB"), "{line}: {figure}");
            }
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
