//! The saved state of an interrupted batch: a file with the idempotency key, written before the upload, and
//! the batch id, added once it is known. Every write replaces the file as a whole.

use super::input::BatchInput;
use crate::cli::error::CliError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folder inside the user's state directory.
const FOLDER: &str = "nanoclaw/batches";

/// The content of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeRecord {
    /// The server; only for people who read the file.
    server: String,
    /// The input file; only for people who read the file.
    file: String,
    key: String,
    batch: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ResumeState {
    path: PathBuf,
    record: ResumeRecord,
}

impl ResumeState {
    /// The folder of all state files. Creates it.
    pub(super) fn folder(state_home: Option<PathBuf>) -> Result<PathBuf, CliError> {
        let home = state_home.ok_or_else(|| {
            CliError::failed("there is no $HOME to save the state of the batch in")
                .hint("name a directory with XDG_STATE_HOME")
        })?;
        let folder = home.join(FOLDER);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| cannot("make", &folder, &error))?;
        Ok(folder)
    }

    /// Path of the state file for this input and server.
    pub(super) fn path(folder: &Path, server: &str, source: &BatchInput) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let place = source.path.as_ref().map_or(&b"-"[..], |path| path.as_os_str().as_bytes());
        let hasher = Sha256::new().chain_update(server).chain_update([0]).chain_update(place);
        let hash: [u8; 32] = hasher.chain_update([0]).chain_update(source.digest).finalize().into();
        let (head, tail) = hash.split_at(16);
        folder.join(format!("{:032x}{:032x}.json", number(head), number(tail)))
    }

    /// Reads the state that an earlier run left.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, CliError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", path, &error)),
        };
        let record = serde_json::from_slice(&text)
            .map_err(|error| cannot("read", path, &error).hint("start a new batch with --new"))?;
        Ok(Some(Self { path: path.to_owned(), record }))
    }

    /// Writes a new state, over any earlier one.
    pub(super) fn create(
        path: PathBuf,
        server: &str,
        source: &BatchInput,
        random: u128,
    ) -> Result<Self, CliError> {
        let (server, file) = (server.to_owned(), source.name.clone());
        let record = ResumeRecord { server, file, key: key(random), batch: None };
        let state = Self { path, record };
        state.write()?;
        Ok(state)
    }

    /// Reads the state again.
    pub(super) fn reload(&self) -> Option<Self> {
        Self::load(&self.path).ok().flatten()
    }

    /// The idempotency key of the upload.
    pub(super) fn key(&self) -> &str {
        &self.record.key
    }

    /// The batch id, once the server has sent it.
    pub(super) fn batch(&self) -> Option<&str> {
        self.record.batch.as_deref()
    }

    /// Saves the batch id.
    pub(super) fn keep(&mut self, batch: &str) -> Result<(), CliError> {
        self.record.batch = Some(batch.to_owned());
        self.write()
    }

    /// Starts over with a new key: the old batch is gone.
    pub(super) fn renew(&mut self, random: u128) -> Result<(), CliError> {
        (self.record.key, self.record.batch) = (key(random), None);
        self.write()
    }

    /// Deletes the state.
    pub(super) fn forget(&self) -> Result<(), CliError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(cannot("remove", &self.path, &error))
            }
            _ => Ok(()),
        }
    }

    fn write(&self) -> Result<(), CliError> {
        let text = serde_json::to_vec_pretty(&self.record).map_err(|e| CliError::failed(e.to_string()))?;
        replace(&self.path, &text).map_err(|error| cannot("write", &self.path, &error))
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn key(random: u128) -> String {
    format!("nanoclaw-batch-{random:032x}")
}

/// Replaces the file: after a crash it has the old or the new content, never a part.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.new", std::process::id()));
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary);
    let mut file = options?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("cannot {what} '{}': {why}", path.display()))
        .hint("the state of interrupted batches is saved there; name another directory with XDG_STATE_HOME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(dir: &Path, name: &str, text: &str) -> BatchInput {
        std::fs::write(dir.join(name), text).expect("written");
        BatchInput::open(&dir.join(name), dir).expect("opened")
    }

    #[test]
    fn a_state_is_found_by_server_path_and_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = ResumeState::folder(Some(dir.path().to_owned())).expect("made");
        let a = source(dir.path(), "a", "one");
        let path = ResumeState::path(&folder, "http://s", &a);
        assert!(ResumeState::load(&path).expect("read").is_none());
        let mut state = ResumeState::create(path.clone(), "http://s", &a, 7).expect("written");
        state.keep("batch_1").expect("written");
        let found = ResumeState::load(&path).expect("read").expect("there");
        assert_eq!((found.key(), found.batch()), (state.key(), Some("batch_1")));
        let again = ResumeState::path(&folder, "http://s", &source(dir.path(), "a", "one"));
        assert_eq!(again, path);
        for other in [
            ResumeState::path(&folder, "http://t", &a),
            ResumeState::path(&folder, "http://s", &source(dir.path(), "b", "one")),
            ResumeState::path(&folder, "http://s", &source(dir.path(), "a", "two")),
        ] {
            assert_ne!(other, path);
        }
        found.forget().expect("removed");
        found.forget().expect("removing nothing is fine");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "nothing else is left");
    }

    #[test]
    fn a_broken_state_file_names_the_option_to_start_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.json");
        std::fs::write(&path, "{").expect("written");
        assert!(ResumeState::load(&path).expect_err("broken").to_string().contains("--new"));
    }
}
