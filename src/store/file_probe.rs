//! Checks the kind of file at the store's path without opening it as a store, so that a running server is not
//! disturbed. Reads the signature only.

use super::atomic_file::{AtomicFile, sync_directory_of};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// The first bytes of every redb file (redb, `docs/design.md`).
const SIGNATURE: &[u8; 9] = b"redb\x1A\x0A\xA9\x0D\x0A";

/// The kind of file at the store's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileProbe {
    /// No file: the first start creates it.
    Absent,
    /// A store, by its signature.
    Store,
    /// Another file, or a store with a damaged beginning.
    Foreign,
}

/// Content of the file that says that a directory has a store.
const STORE_MARK: &str = "A store of NanoClaw belongs beside this file. If it is missing, the server does not start:\n\
mount its disk, or restore a backup. 'nanoclaw serve --new-store' starts with an empty one.\n";

/// Whether a store was opened at this path before: then `nanoclaw.id` stands beside `nanoclaw.redb`.
pub fn had_store(path: &Path) -> bool {
    path.with_extension("id").exists()
}

/// Writes the file that [`had_store`] looks for, unless it exists. Only its name counts, so only the
/// directory is synced: a power loss may empty the file.
pub(super) fn mark_store(path: &Path) -> io::Result<()> {
    if had_store(path) {
        return Ok(());
    }
    let draft = AtomicFile::begin(&path.with_extension("id"))?;
    draft.file().write_all(STORE_MARK.as_bytes())?;
    draft.finish_unsynced()?;
    sync_directory_of(path)
}

/// Fails when the file exists and cannot be read, and for a symbolic link that leads nowhere.
pub fn probe_file(path: &Path) -> io::Result<FileProbe> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        // Opening a pipe would wait for its other end.
        Ok(_) => return Ok(FileProbe::Foreign),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if fs::symlink_metadata(path).is_ok() {
                let reason = "it is a symbolic link that leads nowhere";
                return Err(io::Error::new(io::ErrorKind::NotFound, reason));
            }
            return Ok(FileProbe::Absent);
        }
        Err(error) => return Err(error),
    }
    let mut file = File::open(path)?;
    let mut head = [0; SIGNATURE.len()];
    match file.read_exact(&mut head) {
        Ok(()) if head == *SIGNATURE => Ok(FileProbe::Store),
        Ok(()) => Ok(FileProbe::Foreign),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(FileProbe::Foreign),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_file_is_recognized_by_its_signature() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s.redb");
        assert_eq!(probe_file(&path).expect("looks"), FileProbe::Absent);
        drop(::redb::Database::create(&path).expect("a store"));
        assert_eq!(probe_file(&path).expect("looks"), FileProbe::Store);
        std::fs::write(&path, "not a store, but long enough").expect("written");
        assert_eq!(probe_file(&path).expect("looks"), FileProbe::Foreign);
        for short in ["short", ""] {
            std::fs::write(&path, short).expect("written");
            assert_eq!(probe_file(&path).expect("looks"), FileProbe::Foreign);
        }
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .expect("a pipe");
        assert_eq!(probe_file(&pipe).expect("looks, and does not wait"), FileProbe::Foreign);
    }
}
