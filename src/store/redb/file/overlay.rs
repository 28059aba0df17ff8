//! A database file whose changes stay in memory. On a full disk redb can repair and read the store this way,
//! and the file stays as it is.

use crate::store::redb::file::checked_file::CheckedFile;
use redb::{BackendError, StorageBackend};
use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE_BYTES: usize = 4096;

/// The number of the page that holds this byte, and the byte's offset in it.
fn page_of(at: u64) -> (u64, usize) {
    let inside = usize::try_from(at % PAGE_BYTES as u64).unwrap_or(0);
    (at / PAGE_BYTES as u64, inside)
}

/// The file, and what was changed since it was opened.
#[derive(Debug)]
pub(crate) struct Overlay {
    file: CheckedFile,
    changes: Mutex<OverlayChanges>,
}

#[derive(Debug)]
struct OverlayChanges {
    bytes: u64,
    /// Bytes from here on are not those of the file.
    file_bytes: u64,
    /// Changed pages by number.
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(crate) fn over(file: CheckedFile) -> io::Result<Self> {
        let bytes = file.len()?;
        let changes = OverlayChanges { bytes, file_bytes: bytes, pages: BTreeMap::new() };
        Ok(Self { file, changes: Mutex::new(changes) })
    }

    fn changes(&self) -> MutexGuard<'_, OverlayChanges> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The page as it is now.
    fn page(&self, changes: &OverlayChanges, number: u64) -> io::Result<Vec<u8>> {
        if let Some(changed) = changes.pages.get(&number) {
            return Ok(changed.clone());
        }
        let start = number.saturating_mul(PAGE_BYTES as u64);
        let in_file = changes.file_bytes.saturating_sub(start).min(PAGE_BYTES as u64);
        let mut page = vec![0; usize::try_from(in_file).unwrap_or(PAGE_BYTES)];
        if !page.is_empty() {
            self.file.read(start, &mut page)?;
        }
        page.resize(PAGE_BYTES, 0);
        Ok(page)
    }

    /// Calls `act` with each page of a range: its number, the offset in it, the range of the caller's bytes.
    fn for_pages(
        offset: u64,
        bytes: usize,
        mut act: impl FnMut(u64, usize, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < bytes {
            let at = offset.saturating_add(done as u64);
            let (number, inside) = page_of(at);
            let end = done.saturating_add(PAGE_BYTES.saturating_sub(inside)).min(bytes);
            act(number, inside, done..end)?;
            done = end;
        }
        Ok(())
    }
}

fn past_the_end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.changes().bytes)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let changes = self.changes();
        if offset.saturating_add(out.len() as u64) > changes.bytes {
            return Err(past_the_end());
        }
        Self::for_pages(offset, out.len(), |number, inside, range| {
            let page = self.page(&changes, number)?;
            let from = page.get(inside..inside.saturating_add(range.len())).ok_or_else(past_the_end)?;
            out.get_mut(range).ok_or_else(past_the_end)?.copy_from_slice(from);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut changes = self.changes();
        if len < changes.bytes {
            // What comes behind a new end is zero, also if the storage grows again.
            let (number, kept) = page_of(len);
            let mut last = self.page(&changes, number)?;
            last.truncate(kept);
            last.resize(PAGE_BYTES, 0);
            drop(changes.pages.split_off(&number));
            changes.pages.insert(number, last);
            changes.file_bytes = changes.file_bytes.min(len);
        }
        changes.bytes = len;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut changes = self.changes();
        Self::for_pages(offset, data.len(), |number, inside, range| {
            let mut page = self.page(&changes, number)?;
            let target = page.get_mut(inside..inside.saturating_add(range.len())).ok_or_else(past_the_end)?;
            target.copy_from_slice(data.get(range).ok_or_else(past_the_end)?);
            changes.pages.insert(number, page);
            Ok(())
        })
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::redb::file::checked_file::SyncFailure;
    use std::fs::File;

    #[test]
    fn changes_stay_in_memory_and_read_as_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let content: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let file = CheckedFile::new(File::open(&path).unwrap(), SyncFailure::default()).unwrap();
        let overlay = Overlay::over(file).unwrap();
        let read = |offset: u64, bytes: usize| {
            let mut out = vec![0; bytes];
            overlay.read(offset, &mut out).map(|()| out)
        };
        assert_eq!(read(0, 10_000).unwrap(), content);
        let mut expected = content.clone();
        expected[4_000..9_000].fill(9);
        overlay.write(4_000, &[9; 5_000]).unwrap();
        assert_eq!(read(0, 10_000).unwrap(), expected);
        overlay.set_len(20_000).unwrap();
        expected.resize(20_000, 0);
        assert_eq!(read(0, 20_000).unwrap(), expected);
        overlay.set_len(5_000).unwrap();
        assert!(read(4_999, 2).is_err());
        overlay.set_len(12_000).unwrap();
        expected[5_000..].fill(0);
        assert_eq!(read(0, 12_000).unwrap(), expected[..12_000], "what was cut off is zero");
        assert_eq!(std::fs::read(&path).unwrap(), content, "the file is not changed");
    }
}
