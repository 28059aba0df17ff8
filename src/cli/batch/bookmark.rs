//! What an interrupted call leaves behind for the next one: a file that holds the idempotency key, written before anything
//! is sent, and the batch's id as soon as it is known. Owns that file; it is always whole, whenever the call dies.

use super::source::Source;
use crate::cli::error::CliError;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Below the user's state directory.
const FOLDER: &str = "nanoclaw/batches";

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    /// Whom the lines went to; for people who look into the file.
    server: String,
    /// What the file of lines was called; for the same.
    file: String,
    key: String,
    batch: Option<String>,
}

/// The place of one batch of one file at one server.
#[derive(Debug, Clone)]
pub(super) struct Bookmark {
    path: PathBuf,
    note: Note,
}

impl Bookmark {
    /// The directory of all of them, made when it is not there.
    pub(super) fn folder(state_home: Option<PathBuf>) -> Result<PathBuf, CliError> {
        let home = state_home.ok_or_else(|| {
            CliError::failed("there is no $HOME to remember the batch in")
                .hint("name a directory with XDG_STATE_HOME")
        })?;
        let folder = home.join(FOLDER);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| cannot("make", &folder, &error))?;
        Ok(folder)
    }

    /// Where the batch of this file at this server is remembered.
    pub(super) fn path(folder: &Path, server: &str, source: &Source) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let place = source.path.as_ref().map_or(&b"-"[..], |path| path.as_os_str().as_bytes());
        let hasher = Sha256::new().chain_update(server).chain_update([0]).chain_update(place);
        let hash: [u8; 32] = hasher.chain_update([0]).chain_update(source.digest).finalize().into();
        let (head, tail) = hash.split_at(16);
        folder.join(format!("{:032x}{:032x}.json", number(head), number(tail)))
    }

    /// What an earlier call has left.
    pub(super) fn find(path: &Path) -> Result<Option<Self>, CliError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", path, &error)),
        };
        let note = serde_json::from_slice(&text)
            .map_err(|error| cannot("read", path, &error).hint("start a new batch with --new"))?;
        Ok(Some(Self { path: path.to_owned(), note }))
    }

    /// A new one, on the disk, over whatever an earlier call has left.
    pub(super) fn begin(
        path: PathBuf,
        server: &str,
        source: &Source,
        random: u128,
    ) -> Result<Self, CliError> {
        let (server, file) = (server.to_owned(), source.name.clone());
        let note = Note { server, file, key: key(random), batch: None };
        let bookmark = Self { path, note };
        bookmark.write()?;
        Ok(bookmark)
    }

    /// As it is on the disk now.
    pub(super) fn again(&self) -> Option<Self> {
        Self::find(&self.path).ok().flatten()
    }

    /// The key under which the lines are sent, however often.
    pub(super) fn key(&self) -> &str {
        &self.note.key
    }

    /// The batch, once the server has named it.
    pub(super) fn batch(&self) -> Option<&str> {
        self.note.batch.as_deref()
    }

    /// Keeps the batch's id.
    pub(super) fn keep(&mut self, batch: &str) -> Result<(), CliError> {
        self.note.batch = Some(batch.to_owned());
        self.write()
    }

    /// Another key: the batch of the old one is gone.
    pub(super) fn renew(&mut self, random: u128) -> Result<(), CliError> {
        (self.note.key, self.note.batch) = (key(random), None);
        self.write()
    }

    /// There is nothing to come back to.
    pub(super) fn forget(&self) -> Result<(), CliError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(cannot("remove", &self.path, &error))
            }
            _ => Ok(()),
        }
    }

    fn write(&self) -> Result<(), CliError> {
        let text = serde_json::to_vec_pretty(&self.note).map_err(|e| CliError::failed(e.to_string()))?;
        replace(&self.path, &text).map_err(|error| cannot("write", &self.path, &error))
    }
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

fn key(random: u128) -> String {
    format!("nanoclaw-batch-{random:032x}")
}

/// The old content or the new one, never a part.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let options = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft);
    let mut file = options?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn cannot(what: &str, path: &Path, why: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("cannot {what} '{}': {why}", path.display()))
        .hint("interrupted batches are remembered there; name another place with XDG_STATE_HOME")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(dir: &Path, name: &str, text: &str) -> Source {
        std::fs::write(dir.join(name), text).expect("written");
        Source::open(&dir.join(name), dir).expect("opened")
    }

    #[test]
    fn a_bookmark_is_found_again_by_server_place_and_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = Bookmark::folder(Some(dir.path().to_owned())).expect("made");
        let a = source(dir.path(), "a", "one");
        let path = Bookmark::path(&folder, "http://s", &a);
        assert!(Bookmark::find(&path).expect("read").is_none());
        let mut bookmark = Bookmark::begin(path.clone(), "http://s", &a, 7).expect("written");
        bookmark.keep("batch_1").expect("written");
        let found = Bookmark::find(&path).expect("read").expect("there");
        assert_eq!((found.key(), found.batch()), (bookmark.key(), Some("batch_1")));
        let again = Bookmark::path(&folder, "http://s", &source(dir.path(), "a", "one"));
        assert_eq!(again, path);
        for other in [
            Bookmark::path(&folder, "http://t", &a),
            Bookmark::path(&folder, "http://s", &source(dir.path(), "b", "one")),
            Bookmark::path(&folder, "http://s", &source(dir.path(), "a", "two")),
        ] {
            assert_ne!(other, path);
        }
        found.forget().expect("removed");
        found.forget().expect("removing nothing is fine");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "nothing else is left");
    }

    #[test]
    fn a_broken_bookmark_is_told_with_the_way_out() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.json");
        std::fs::write(&path, "{").expect("written");
        assert!(Bookmark::find(&path).expect_err("broken").to_string().contains("--new"));
    }
}
