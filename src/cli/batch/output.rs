//! The destination of results: stdout, or a file that appears only when it is complete.

use super::input::BatchInput;
use crate::cli::error::CliError;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Suffix of the incomplete file.
const PART: &str = ".part";

/// A destination, checked before anything is uploaded.
#[derive(Debug, Clone)]
pub(super) enum ResultTarget {
    Stdout,
    /// A regular file, replaced as a whole.
    File(PathBuf),
    /// An existing pipe or device, such as `/dev/null`.
    Device(PathBuf),
}

impl ResultTarget {
    /// The destination that `-o` names. Refuses an impossible one, the input file, and, without
    /// `may_replace`, a file that has content.
    pub(super) fn find(out: Option<&Path>, source: &BatchInput, may_replace: bool) -> Result<Self, CliError> {
        let Some(out) = out.filter(|out| *out != Path::new("-")) else { return Ok(Self::Stdout) };
        let cannot = |why: &str| {
            CliError::usage(format!("cannot write to '{}': {why}", out.display()))
                .hint("name a file for the results in a directory that is there")
        };
        if let Ok(metadata) = out.metadata() {
            let resolved = out.canonicalize().unwrap_or_else(|_| out.to_owned());
            return match (metadata.is_dir(), metadata.is_file()) {
                (true, _) => Err(cannot("it is a directory")),
                (_, true) if source.path.as_ref() == Some(&resolved) => Err(cannot("it is the input")),
                (_, true) if metadata.len() > 0 && !may_replace => {
                    Err(CliError::failed(format!("'{}' exists already", out.display()))
                        .hint("replace it with --force, or name another file for the results"))
                }
                (_, true) => Ok(Self::File(resolved)),
                _ => Ok(Self::Device(out.to_owned())),
            };
        }
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if out.file_name().is_none() || !folder.is_dir() {
            return Err(cannot("there is no such directory"));
        }
        Ok(Self::File(out.to_owned()))
    }

    pub(super) fn open(&self) -> Result<ResultWriter, CliError> {
        let cannot = |path: &Path, error: io::Error| {
            CliError::failed(format!("cannot write to '{}': {error}", path.display()))
                .hint("name a file in a directory that you may write to: --output OUT")
        };
        let (file, part): (Box<dyn Write>, _) = match self {
            Self::Stdout => (Box::new(io::stdout()), None),
            Self::Device(path) => {
                let file = File::options().write(true).open(path).map_err(|e| cannot(path, e))?;
                (Box::new(file), None)
            }
            Self::File(path) => {
                let mut part = path.clone().into_os_string();
                part.push(PART);
                let part = PathBuf::from(part);
                let file = File::create(&part).map_err(|e| cannot(&part, e))?;
                let sync_handle = file.try_clone().map_err(|e| cannot(&part, e))?;
                (Box::new(file), Some((sync_handle, part, path.clone())))
            }
        };
        Ok(ResultWriter { out: BufWriter::new(file), part })
    }
}

pub(super) struct ResultWriter {
    pub(super) out: BufWriter<Box<dyn Write>>,
    /// A temporary file behind `out`, its path and its final path.
    part: Option<(File, PathBuf, PathBuf)>,
}

impl ResultWriter {
    /// Flushes everything; a file is synced and renamed.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        let Some((file, part, path)) = self.part else { return Ok(()) };
        file.sync_all()?;
        std::fs::rename(&part, &path)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}
