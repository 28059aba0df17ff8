//! Drops the pages of a file that the kernel has cached, and proves it: what a program reads from then on is
//! what the disk holds. Then writes the file again, because a drive whose flush failed may answer reads from
//! a cache of its own.

use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Bytes compared and written at once.
const BLOCK_BYTES: usize = 1024 * 1024;

/// Alignment of buffers for direct reads, bytes.
const ALIGNMENT: usize = 4096;

/// Drops the cached pages of the file, then reads all of it past the cache and through it, and writes and
/// syncs what it has read. Fails if the two differ: the kernel has kept a page. File systems without direct
/// reads, such as tmpfs, are not compared.
pub(crate) fn drop_cached_pages(path: &Path) -> io::Result<()> {
    let cached = OpenOptions::new().read(true).write(true).open(path)?;
    fadvise(&cached, 0, None, Advice::DontNeed)?;
    let flags = OFlags::DIRECT.bits().cast_signed();
    let direct = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => None,
        direct => Some(direct?),
    };
    rewrite(&cached, direct.as_ref())?;
    cached.sync_data()
}

/// Writes the file over itself, block by block, each after its comparison with `direct`. Holes stay holes:
/// a full disk has no room for them.
fn rewrite(cached: &File, direct: Option<&File>) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK_BYTES.saturating_add(ALIGNMENT)];
    let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
    let on_disk = buffer.get_mut(aligned..aligned.saturating_add(BLOCK_BYTES)).unwrap_or_default();
    let mut in_cache = vec![0; BLOCK_BYTES];
    let (mut offset, bytes) = (0, cached.metadata()?.len());
    while offset < bytes {
        let left = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(BLOCK_BYTES);
        let block = in_cache.get_mut(..left.min(BLOCK_BYTES)).unwrap_or_default();
        cached.read_exact_at(block, offset)?;
        if let Some(direct) = direct {
            let count = direct.read_at(on_disk, offset)?;
            if on_disk.get(..count) != Some(&*block) {
                let reason = format!("the page cache differs from the disk near byte {offset}");
                return Err(io::Error::other(reason));
            }
        }
        if block.iter().any(|byte| *byte != 0) {
            cached.write_all_at(block, offset)?;
        }
        offset = offset.saturating_add(block.len() as u64);
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
        assert_eq!(std::fs::read(&path).unwrap(), vec![7; 3 * BLOCK_BYTES + 17]);
        let (disk, other) = (File::open(&path).unwrap(), dir.path().join("other"));
        std::fs::write(&other, [vec![7; 3 * BLOCK_BYTES], vec![8; 17]].concat()).unwrap();
        let other = OpenOptions::new().read(true).write(true).open(&other).unwrap();
        let differs = rewrite(&other, Some(&disk)).unwrap_err().to_string();
        assert!(differs.contains("differs from the disk near byte 3145728"), "{differs}");
    }
}
