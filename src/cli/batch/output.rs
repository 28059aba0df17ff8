//! Where the results go: stdout, or a file that appears only when it is whole. Owns the unfinished file.

use super::source::Source;
use crate::cli::error::CliError;
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

/// What is appended to the name of a file that is not whole yet.
const PART: &str = ".part";

/// A place for results, looked at before anything is sent.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// Stdout.
    Stdout,
    /// A file that is replaced as a whole.
    File(PathBuf),
    /// What is there already and no file: a pipe, `/dev/null`.
    Device(PathBuf),
}

impl Place {
    /// The place that `-o` names; refuses one that cannot be, or that is the input itself.
    pub(super) fn find(out: Option<&Path>, source: &Source) -> Result<Self, CliError> {
        let Some(out) = out.filter(|out| *out != Path::new("-")) else { return Ok(Self::Stdout) };
        let cannot = |why: &str| {
            CliError::usage(format!("cannot write to '{}': {why}", out.display()))
                .hint("name a file for the results in a directory that is there")
        };
        if let Ok(there) = out.metadata() {
            let real = out.canonicalize().unwrap_or_else(|_| out.to_owned());
            return match (there.is_dir(), there.is_file()) {
                (true, _) => Err(cannot("it is a directory")),
                (_, true) if source.path.as_ref() == Some(&real) => Err(cannot("it is the input")),
                (_, true) => Ok(Self::File(real)),
                _ => Ok(Self::Device(out.to_owned())),
            };
        }
        let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if out.file_name().is_none() || !folder.is_dir() {
            return Err(cannot("there is no such directory"));
        }
        Ok(Self::File(out.to_owned()))
    }

    /// Opens it.
    pub(super) fn open(&self) -> Result<Output, CliError> {
        let cannot = |path: &Path, error: io::Error| {
            CliError::failed(format!("cannot write to '{}': {error}", path.display()))
                .hint("name a file in a directory that you may write to: --output OUT")
        };
        Ok(match self {
            Self::Stdout => Output::Stdout(BufWriter::new(io::stdout())),
            Self::Device(path) => {
                let file = File::options().write(true).open(path).map_err(|e| cannot(path, e))?;
                Output::Device(BufWriter::new(file))
            }
            Self::File(path) => {
                let mut part = path.clone().into_os_string();
                part.push(PART);
                let part = PathBuf::from(part);
                let file = File::create(&part).map_err(|e| cannot(&part, e))?;
                Output::Part { file: BufWriter::new(file), part, path: path.clone() }
            }
        })
    }
}

/// A place that is being written to.
#[derive(Debug)]
pub(super) enum Output {
    /// Stdout.
    Stdout(BufWriter<Stdout>),
    /// Written as it comes.
    Device(BufWriter<File>),
    /// Written aside, then put in its place.
    Part {
        /// The unfinished file.
        file: BufWriter<File>,
        /// Where it lies.
        part: PathBuf,
        /// Where it belongs.
        path: PathBuf,
    },
}

impl Output {
    /// The next bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.write_all(bytes),
            Self::Device(file) | Self::Part { file, .. } => file.write_all(bytes),
        }
    }

    /// All is written: durable, and in its place.
    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Self::Stdout(mut out) => out.flush(),
            Self::Device(mut file) => file.flush(),
            Self::Part { mut file, part, path } => {
                file.flush()?;
                file.get_ref().sync_all()?;
                std::fs::rename(&part, &path)?;
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
            }
        }
    }
}
