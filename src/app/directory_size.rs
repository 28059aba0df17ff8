//! Bounds a directory that outlives its program (P8). It is counted before each start of the program.

use nanoclaw_sandbox::count_tree;
use std::fs::File;
use std::io;
use std::path::Path;

/// Most that the own directory of an MCP server may hold: packages, and what the server stores.
const MAX_BYTES: u64 = 4 * 1024 * 1024 * 1024;
const MAX_ENTRIES: u64 = 400_000;

/// Checks the size. Links are not followed. The error is for the operator.
pub(super) fn check_size(dir: &Path) -> Result<(), String> {
    check(dir, MAX_BYTES, MAX_ENTRIES)
}

fn check(dir: &Path, max_bytes: u64, max_entries: u64) -> Result<(), String> {
    let shown = dir.display();
    match is_within(dir, max_bytes, max_entries) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!(
            "'{shown}' holds more than {max_bytes} bytes or {max_entries} entries; remove what the server does not need"
        )),
        Err(error) => Err(format!("cannot read '{shown}': {error}")),
    }
}

fn is_within(dir: &Path, max_bytes: u64, max_entries: u64) -> io::Result<bool> {
    let count = count_tree(File::open(dir)?, max_entries)?;
    Ok(!count.is_cut && count.bytes <= max_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_a_directory_over_its_limit_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("below")).expect("makes");
        std::fs::write(dir.path().join("below/file"), "x".repeat(10_000)).expect("writes");
        std::os::unix::fs::symlink("/", dir.path().join("root")).expect("links");
        assert_eq!(check(dir.path(), 1_000_000, 3), Ok(()));
        for (bytes, entries) in [(9_999, 100), (1_000_000, 2)] {
            let error = check(dir.path(), bytes, entries).expect_err("too much");
            assert!(error.contains("remove what the server does not need"), "{error}");
        }
    }
}
