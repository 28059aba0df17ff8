//! The lines to upload: the file, or a copy of stdin, with its size and digest. Never loaded into memory.

use crate::cli::error::CliError;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

/// Name of stdin in messages.
const STDIN: &str = "stdin";

/// A file that can be read more than once.
#[derive(Debug)]
pub(super) struct BatchInput {
    /// Name in messages.
    pub(super) name: String,
    /// `None` for stdin.
    pub(super) path: Option<PathBuf>,
    /// Size.
    pub(super) bytes: u64,
    /// SHA-256 of the content.
    pub(super) digest: [u8; 32],
    file: File,
}

impl BatchInput {
    /// Opens `path` and computes its digest. Stdin is copied to an unnamed file in `dir` first.
    pub(super) fn open(path: &Path, dir: &Path) -> Result<Self, CliError> {
        let is_stdin = path == Path::new("-");
        let name = if is_stdin { STDIN.to_owned() } else { path.display().to_string() };
        let cannot = |error: io::Error| {
            CliError::failed(format!("cannot read '{name}': {error}"))
                .hint("give a file of JSON lines, or '-' for stdin")
        };
        let (file, path) = if is_stdin {
            (copy_stdin(dir).map_err(cannot)?, None)
        } else {
            let file = File::open(path).map_err(cannot)?;
            // A pipe or a terminal cannot be sent twice.
            if !file.metadata().map_err(cannot)?.is_file() {
                return Err(CliError::failed(format!("cannot read '{name}': it is not a file"))
                    .hint("give a file of JSON lines, or '-' for stdin"));
            }
            (file, Some(path.canonicalize().map_err(cannot)?))
        };
        let mut hasher = Sha256::new();
        let bytes = io::copy(&mut BufReader::with_capacity(1 << 16, &file), &mut HashWriter(&mut hasher));
        let bytes = bytes.map_err(cannot)?;
        Ok(Self { name, path, bytes, digest: hasher.finalize().into(), file })
    }

    /// Reads it from the start.
    pub(super) fn reader(&self) -> io::Result<InputReader<'_>> {
        (&self.file).rewind()?;
        Ok(InputReader { file: &self.file, remaining: self.bytes, failure: None })
    }
}

/// Reads exactly the measured size: a file that has become shorter is an error, not a short upload.
pub(super) struct InputReader<'a> {
    file: &'a File,
    remaining: u64,
    /// The error that ended the reading.
    pub(super) failure: Option<io::Error>,
}

impl Read for InputReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.file.take(self.remaining).read(buffer) {
            Ok(0) if self.remaining > 0 && !buffer.is_empty() => {
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut short while it was read"))
            }
            read => read,
        };
        match read {
            Ok(count) => {
                self.remaining = self.remaining.saturating_sub(count as u64);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                let kind = error.kind();
                self.failure = Some(error);
                Err(kind.into())
            }
        }
    }
}

struct HashWriter<'a>(&'a mut Sha256);

impl io::Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn copy_stdin(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!("stdin.{}", std::process::id()));
    let mut file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    std::fs::remove_file(&path)?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_file_is_reread_up_to_its_size_at_opening() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs.jsonl");
        std::fs::write(&path, "one\ntwo\n").expect("written");
        let source = BatchInput::open(&path, dir.path()).expect("opened");
        let text = |source: &BatchInput| {
            let mut text = String::new();
            source.reader().and_then(|mut reader| reader.read_to_string(&mut text)).map(|_| text)
        };
        assert_eq!(text(&source).expect("read"), "one\ntwo\n");
        std::fs::write(&path, "one\ntwo\nthree\n").expect("written");
        assert_eq!(text(&source).expect("read"), "one\ntwo\n", "what was appended is not sent");
        std::fs::write(&path, "one").expect("written");
        let mut reader = source.reader().expect("opened");
        assert!(reader.read_to_end(&mut Vec::new()).is_err(), "a short body would be another batch");
        assert!(reader.failure.expect("told").to_string().contains("cut short"));
    }

    #[test]
    fn a_batch_input_that_cannot_be_reread_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        for path in [dir.path(), Path::new("/dev/null"), &dir.path().join("absent")] {
            assert!(BatchInput::open(path, dir.path()).is_err(), "{}", path.display());
        }
    }
}
