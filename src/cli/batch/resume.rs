//! The saved state of a batch: a file with the idempotency key, written before the upload, the batch id,
//! added once it is known, and whether the results have arrived. Every write replaces the file as a whole.

use super::input::BatchInput;
use crate::cli::error::CliError;
use crate::domain::hex::hex;
use crate::store::AtomicFile;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folder inside the user's state directory.
const FOLDER: &str = "nanoclaw/batches";

/// How long a state file is kept.
const KEPT: Duration = Duration::from_secs(90 * 86_400);

/// The content of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeState {
    #[serde(skip)]
    pub(super) path: PathBuf,
    /// The server; only for people who read the file.
    server: String,
    /// The input file; only for people who read the file.
    file: String,
    /// The idempotency key of the upload.
    pub(super) key: String,
    /// The batch id, once the server has sent it.
    pub(super) batch: Option<String>,
    /// Whether the results have arrived: the same command does not run the batch again.
    #[serde(default)]
    pub(super) is_finished: bool,
}

impl ResumeState {
    /// The folder of all state files. Creates it.
    pub(super) fn folder(state_home: Option<PathBuf>) -> Result<PathBuf, CliError> {
        let home = state_home.ok_or_else(|| {
            CliError::failed("there is no $HOME to save the state of the batch in")
                .hint("name a directory with XDG_STATE_HOME")
        })?;
        let folder = home.join(FOLDER);
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        created.map_err(|error| cannot("make", &folder, &error))?;
        Ok(folder)
    }

    /// Path of the state file for this input and server.
    pub(super) fn path(folder: &Path, server: &str, source: &BatchInput) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let source_path = source.path.as_ref().map_or(&b"-"[..], |path| path.as_os_str().as_bytes());
        let hasher = Sha256::new().chain_update(server).chain_update([0]).chain_update(source_path);
        let hash: [u8; 32] = hasher.chain_update([0]).chain_update(source.digest).finalize().into();
        folder.join(format!("{}.json", hex(&hash)))
    }

    /// Reads the state that an earlier run left.
    pub(super) fn load(path: &Path) -> Result<Option<Self>, CliError> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot("read", path, &error)),
        };
        let state: Self = serde_json::from_slice(&text)
            .map_err(|error| cannot("read", path, &error).hint("start a new batch with --new"))?;
        Ok(Some(Self { path: path.to_owned(), ..state }))
    }

    /// Writes a new state, over any earlier one.
    pub(super) fn create(
        path: PathBuf,
        server: &str,
        source: &BatchInput,
        random: u128,
    ) -> Result<Self, CliError> {
        let (server, file) = (server.to_owned(), source.name.clone());
        let state = Self { path, server, file, key: key(random), batch: None, is_finished: false };
        state.write()?;
        Ok(state)
    }

    /// Saves the batch id.
    pub(super) fn save_batch(&mut self, batch: &str) -> Result<(), CliError> {
        self.batch = Some(batch.to_owned());
        self.write()
    }

    /// Starts again with a new key, because the server no longer has the batch.
    pub(super) fn restart(&mut self, random: u128) -> Result<(), CliError> {
        (self.key, self.batch) = (key(random), None);
        self.write()
    }

    /// Records that the results have arrived. A batch from stdin leaves nothing: each pipe is a new input.
    pub(super) fn finish(&mut self, source: &BatchInput) -> Result<(), CliError> {
        if source.path.is_none() {
            return self.delete();
        }
        self.is_finished = true;
        self.write()?;
        self.prune();
        Ok(())
    }

    /// Fails if the results have arrived already.
    pub(super) fn check_unfinished(&self) -> Result<(), CliError> {
        let (file, server) = (&self.file, &self.server);
        match &self.batch {
            Some(batch) if self.is_finished => Err(CliError::failed(format!(
                "'{file}' has run to its end as {batch}"
            ))
            .hint(format!("run it again with --new; its results: GET {server}/v1/batches/{batch}/results"))),
            _ => Ok(()),
        }
    }

    /// Deletes the state files beside this one that were last written long before it.
    fn prune(&self) {
        let written = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
        let (Ok(now), Some(folder)) = (written(&self.path), self.path.parent()) else { return };
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let age = written(&path).ok().and_then(|time| now.duration_since(time).ok());
            if age.is_some_and(|age| age > KEPT)
                && let Err(error) = std::fs::remove_file(&path)
            {
                tracing::debug!(%error, path = %path.display(), "an old state file stays");
            }
        }
    }

    /// Deletes the file.
    pub(super) fn delete(&self) -> Result<(), CliError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(cannot("remove", &self.path, &error))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the file: after a crash it has the old or the new content, never a part.
    fn write(&self) -> Result<(), CliError> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| CliError::failed(e.to_string()))?;
        let draft = AtomicFile::begin(&self.path);
        let written = draft.and_then(|draft| draft.file().write_all(&text).and_then(|()| draft.finish()));
        written.map_err(|error| cannot("write", &self.path, &error))
    }
}

fn key(random: u128) -> String {
    format!("nanoclaw-batch-{random:032x}")
}

fn cannot(action: &str, path: &Path, reason: &dyn std::fmt::Display) -> CliError {
    CliError::failed(format!("cannot {action} '{}': {reason}", path.display()))
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
    fn a_resume_state_is_found_by_server_path_and_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = ResumeState::folder(Some(dir.path().to_owned())).expect("made");
        let a = source(dir.path(), "a", "one");
        let path = ResumeState::path(&folder, "http://s", &a);
        assert!(ResumeState::load(&path).expect("read").is_none());
        let mut state = ResumeState::create(path.clone(), "http://s", &a, 7).expect("written");
        state.save_batch("batch_1").expect("written");
        let found = ResumeState::load(&path).expect("read").expect("there");
        assert_eq!((&found.key, found.batch.as_deref()), (&state.key, Some("batch_1")));
        let again = ResumeState::path(&folder, "http://s", &source(dir.path(), "a", "one"));
        assert_eq!(again, path);
        for other in [
            ResumeState::path(&folder, "http://t", &a),
            ResumeState::path(&folder, "http://s", &source(dir.path(), "b", "one")),
            ResumeState::path(&folder, "http://s", &source(dir.path(), "a", "two")),
        ] {
            assert_ne!(other, path);
        }
        found.delete().expect("removed");
        found.delete().expect("removing nothing is fine");
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0, "nothing else is left");
    }

    #[test]
    fn a_finished_state_is_kept_and_an_old_one_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = ResumeState::folder(Some(dir.path().to_owned())).expect("made");
        let source = source(dir.path(), "a", "one");
        let old = folder.join("old.json");
        std::fs::write(&old, "{}").expect("written");
        let file = std::fs::File::options().write(true).open(&old).expect("opened");
        file.set_modified(std::time::UNIX_EPOCH).expect("made old");
        let path = ResumeState::path(&folder, "http://s", &source);
        let mut state = ResumeState::create(path.clone(), "http://s", &source, 7).expect("written");
        state.save_batch("batch_1").expect("written");
        state.check_unfinished().expect("not finished");
        state.finish(&source).expect("written");
        assert!(!old.exists());
        let found = ResumeState::load(&path).expect("read").expect("there");
        let error = found.check_unfinished().expect_err("finished").to_string();
        assert!(error.contains("batch_1") && error.contains("--new"), "{error}");
    }

    #[test]
    fn a_broken_state_file_names_the_option_to_start_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.json");
        std::fs::write(&path, "{").expect("written");
        assert!(ResumeState::load(&path).expect_err("broken").to_string().contains("--new"));
    }
}
