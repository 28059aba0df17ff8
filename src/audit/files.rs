//! The files of the audit log: `audit.jsonl` and rotated ones, `audit.1.jsonl` being the newest of them.

use super::options::AuditOptions;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Modes for the owner only.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The file that is appended to.
struct CurrentFile {
    file: File,
    bytes: u64,
}

pub(super) struct AuditFiles {
    dir: PathBuf,
    max_bytes: u64,
    max_rotated: u32,
    /// `None` after an error: the next line opens it again.
    current: Mutex<Option<CurrentFile>>,
}

impl AuditFiles {
    /// Opens the current file; creates it and the directory if they do not exist.
    pub(super) fn open(dir: PathBuf, options: &AuditOptions) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(&dir)?;
        let current = Mutex::new(Some(CurrentFile::open(&current_in(&dir))?));
        Ok(Self { dir, max_bytes: options.max_bytes, max_rotated: options.files, current })
    }

    /// Appends a whole line in one write.
    pub(super) fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut slot = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = match slot.take() {
            Some(current) => current,
            None => CurrentFile::open(&current_in(&self.dir))?,
        };
        let bytes = line.len() as u64;
        if current.bytes > 0 && current.bytes.saturating_add(bytes) > self.max_bytes {
            self.rotate()?;
            current = CurrentFile::open(&current_in(&self.dir))?;
        }
        current.file.write_all(line)?;
        current.bytes = current.bytes.saturating_add(bytes);
        *slot = Some(current);
        Ok(())
    }

    /// All existing files, open: a rotation does not affect their readers.
    pub(super) fn newest_first(&self) -> io::Result<Vec<File>> {
        let _no_rotation = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let rotated = (1..=self.max_rotated).map(|number| self.rotated(number));
        let mut files = Vec::new();
        for path in std::iter::once(current_in(&self.dir)).chain(rotated) {
            match File::open(path) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Gives every file the next number and replaces the last one. If no file is kept, removes the current
    /// one.
    fn rotate(&self) -> io::Result<()> {
        if self.max_rotated == 0 {
            return fs::remove_file(current_in(&self.dir));
        }
        for number in (1..self.max_rotated).rev() {
            rename_if_exists(&self.rotated(number), &self.rotated(number.saturating_add(1)))?;
        }
        rename_if_exists(&current_in(&self.dir), &self.rotated(1))
    }

    fn rotated(&self, number: u32) -> PathBuf {
        self.dir.join(format!("audit.{number}.jsonl"))
    }
}

fn current_in(dir: &Path) -> PathBuf {
    dir.join("audit.jsonl")
}

fn rename_if_exists(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl CurrentFile {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(PRIVATE_FILE).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // An incomplete line, after a crash or a full disk, must not spoil the next one.
            file.seek(SeekFrom::Start(bytes.saturating_sub(1)))?;
            let mut last_byte = [0];
            file.read_exact(&mut last_byte)?;
            if last_byte != *b"\n" {
                file.write_all(b"\n")?;
                bytes = bytes.saturating_add(1);
            }
        }
        Ok(Self { file, bytes })
    }
}
