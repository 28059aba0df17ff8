//! The files of the audit log: `audit.jsonl`, and older ones with a number, 1 for the newest of them. Owns appending and
//! rotation; refuses to know what a line says.

use super::options::AuditOptions;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A directory, and a file, for their owner alone.
const PRIVATE_DIR: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The file that is written.
struct Current {
    file: File,
    bytes: u64,
}

/// The log's directory.
pub(super) struct Files {
    dir: PathBuf,
    max_bytes: u64,
    numbers: u32,
    /// `None` after a failure: the next line tries again.
    current: Mutex<Option<Current>>,
}

impl Files {
    /// Opens the current file; makes it, and the directory, where there is none.
    pub(super) fn open(dir: PathBuf, options: &AuditOptions) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(PRIVATE_DIR).create(&dir)?;
        let current = Mutex::new(Some(Current::open(&current_in(&dir))?));
        Ok(Self { dir, max_bytes: options.max_bytes, numbers: options.files, current })
    }

    /// Appends a whole line in one write.
    pub(super) fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut slot = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut current = match slot.take() {
            Some(current) => current,
            None => Current::open(&current_in(&self.dir))?,
        };
        let bytes = line.len() as u64;
        if current.bytes > 0 && current.bytes.saturating_add(bytes) > self.max_bytes {
            self.rotate()?;
            current = Current::open(&current_in(&self.dir))?;
        }
        current.file.write_all(line)?;
        current.bytes = current.bytes.saturating_add(bytes);
        *slot = Some(current);
        Ok(())
    }

    /// All files that are there. What is rotated meanwhile stays readable: they are open.
    pub(super) fn newest_first(&self) -> io::Result<Vec<File>> {
        let _nothing_rotates = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = (1..=self.numbers).map(|number| self.numbered(number));
        let mut files = Vec::new();
        for path in std::iter::once(current_in(&self.dir)).chain(numbered) {
            match File::open(path) {
                Ok(file) => files.push(file),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    /// Gives every file the next number; the last one is replaced. Without numbers the current file goes.
    fn rotate(&self) -> io::Result<()> {
        if self.numbers == 0 {
            return fs::remove_file(current_in(&self.dir));
        }
        for number in (1..self.numbers).rev() {
            renamed(&self.numbered(number), &self.numbered(number.saturating_add(1)))?;
        }
        renamed(&current_in(&self.dir), &self.numbered(1))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        self.dir.join(format!("audit.{number}.jsonl"))
    }
}

fn current_in(dir: &Path) -> PathBuf {
    dir.join("audit.jsonl")
}

fn renamed(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Current {
    fn open(path: &Path) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).mode(PRIVATE_FILE).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            // What a crash or a full disk cut off must not take the next line with it.
            file.seek(SeekFrom::Start(bytes.saturating_sub(1)))?;
            let mut last = [0];
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes = bytes.saturating_add(1);
            }
        }
        Ok(Self { file, bytes })
    }
}
