//! Drops the pages of a file that the kernel has cached, and proves it: what a program reads from then on is
//! what the disk holds.

use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes compared at once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Alignment of buffers for direct reads, bytes.
const ALIGNMENT: usize = 4096;

/// Drops the cached pages of the file, then reads all of it past the cache and through it. Fails if the two
/// differ: the kernel has kept a page. A file system without direct reads, such as tmpfs, has no disk.
pub(crate) fn drop_cached_pages(path: &Path) -> io::Result<()> {
    let cached = File::open(path)?;
    fadvise(&cached, 0, None, Advice::DontNeed)?;
    let flags = OFlags::DIRECT.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        direct => compare(&direct?, &cached),
    }
}

fn compare(direct: &File, cached: &File) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK_BYTES.saturating_add(ALIGNMENT)];
    let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
    let on_disk = buffer.get_mut(aligned..aligned.saturating_add(BLOCK_BYTES)).unwrap_or_default();
    let mut in_cache = vec![0; BLOCK_BYTES];
    let (mut offset, bytes) = (0, cached.metadata()?.len());
    while offset < bytes {
        let count = direct.read_at(on_disk, offset)?;
        let (disk, cache) = (on_disk.get(..count), in_cache.get_mut(..count));
        let (disk, cache) = (disk.unwrap_or_default(), cache.unwrap_or_default());
        cached.read_exact_at(cache, offset)?;
        if count == 0 || disk != cache {
            let reason = format!("the page cache differs from the disk near byte {offset}");
            return Err(io::Error::other(reason));
        }
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_length_equal_their_disk_and_others_are_told_apart() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap(); // not on a tmpfs
        let path = dir.path().join("file");
        for bytes in [0, 1, 4_096, 5_000, BLOCK_BYTES, 3 * BLOCK_BYTES + 17] {
            std::fs::write(&path, vec![7; bytes]).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            drop_cached_pages(&path).unwrap();
        }
        let (left, right) = (File::open(&path).unwrap(), dir.path().join("other"));
        std::fs::write(&right, [vec![7; 3 * BLOCK_BYTES], vec![8; 17]].concat()).unwrap();
        let differs = compare(&left, &File::open(&right).unwrap()).unwrap_err().to_string();
        assert!(differs.contains("differs from the disk near byte 3145728"), "{differs}");
    }
}
