//! Secrets that the server generates once and keeps in the data directory, readable by its owner only. A
//! damaged file is an error and never replaced: to end all sessions, delete `session_key` and restart.

use super::error::AppError;
use crate::config::Config;
use crate::domain::hex::{hex, hex_bytes};
use crate::domain::log_chain::{LogPublicKey, LogSigningKey};
use crate::domain::secret::Secret;
use crate::domain::workspace::UserDirectories;
use crate::ports::{Entropy, NodeStore};
use crate::store::{AtomicFile, LOG_KEY_SETTING};
use crate::webhooks::{Signer, secret_from_key};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

const SESSION_KEY: &str = "session_key";
/// Size of the session key: that of the signature's hash.
const SESSION_KEY_BYTES: usize = 32;
const WEBHOOK_SECRET: &str = "webhook_secret";
/// The key that signs what retention notes about logs.
const LOG_KEY: &str = LOG_KEY_SETTING;

/// The file of the key that signs sessions.
pub(super) fn session_key_file(dir: &Path) -> PathBuf {
    dir.join(SESSION_KEY)
}

/// The key that signs sessions.
fn session_key(dir: &Path, entropy: &dyn Entropy) -> io::Result<Vec<u8>> {
    let path = session_key_file(dir);
    let key = read_or_create(&path, || entropy.random_key().to_vec())?;
    if key.len() == SESSION_KEY_BYTES {
        return Ok(key);
    }
    Err(damaged(
        &path,
        &format!(
            "is damaged: it does not have {SESSION_KEY_BYTES} bytes; delete it, and all users log in again"
        ),
    ))
}

/// The key that signs sessions on all nodes of a store that no server may have open.
pub(super) fn shared_session_key(
    dir: &Path,
    entropy: &Arc<dyn Entropy>,
    store: &dyn NodeStore,
) -> io::Result<Vec<u8>> {
    PendingSecret::start(dir, entropy, session_key)?.wait_shared(store)
}

/// The secret that signs webhooks if the operator configures none.
fn webhook_secret(dir: &Path, entropy: &dyn Entropy) -> io::Result<Secret> {
    let path = dir.join(WEBHOOK_SECRET);
    let create = || format!("{}\n", secret_from_key(&entropy.random_key()).reveal()).into_bytes();
    let text =
        String::from_utf8(read_or_create(&path, create)?).map_err(|_| damaged(&path, "is not UTF-8"))?;
    let secret = Secret::from(text.trim().to_owned());
    match Signer::new(std::slice::from_ref(&secret)) {
        Ok(_) => Ok(secret),
        Err((_, invalid)) => Err(damaged(&path, &invalid.to_string())),
    }
}

/// The key that signs what retention notes about logs.
fn log_key(dir: &Path, entropy: &dyn Entropy) -> io::Result<LogSigningKey> {
    let path = dir.join(LOG_KEY);
    let seed = entropy.random_key();
    let made = LogSigningKey::from_seed(seed).ok_or_else(|| io::Error::other("cannot make a log key"))?;
    let bytes = read_or_create(&path, || format!("{}\n", made.to_text()).into_bytes())?;
    let unreadable =
        || damaged(&path, "is damaged: put a copy of it back; a new key cannot verify old notes");
    String::from_utf8(bytes)
        .ok()
        .and_then(|text| LogSigningKey::from_text(text.trim()))
        .ok_or_else(unreadable)
}

/// The names of users' directories, which all nodes of a store have. Their key is derived from that of logs.
pub(super) fn user_directories(log_key: &LogSigningKey) -> UserDirectories {
    UserDirectories::new(&log_key.derive("user directories"))
}

/// The same, for a store that no server may have open.
pub(super) fn shared_user_directories(
    dir: &Path,
    entropy: &Arc<dyn Entropy>,
    store: &dyn NodeStore,
) -> io::Result<UserDirectories> {
    Ok(user_directories(&PendingSecret::start(dir, entropy, log_key)?.wait_shared(store)?))
}

/// The public part of the key in a data directory; `None` if there is none.
pub fn log_public_key(dir: &Path) -> io::Result<Option<LogPublicKey>> {
    let path = dir.join(LOG_KEY);
    match fs::read_to_string(&path) {
        Ok(text) => match LogSigningKey::from_text(text.trim()) {
            Some(key) => Ok(Some(key.public_key())),
            None => Err(damaged(&path, "is damaged")),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The secrets of a server that starts.
pub(super) struct PendingSecrets {
    pub(super) session_key: PendingSecret<Vec<u8>>,
    pub(super) log_key: PendingSecret<LogSigningKey>,
    /// `None` if the operator configures secrets.
    pub(super) webhook: Option<PendingSecret<Secret>>,
}

impl PendingSecrets {
    /// Starts a thread for each.
    pub(super) fn start(config: &Config, entropy: &Arc<dyn Entropy>) -> Result<Self, AppError> {
        let (dir, needs_own) = (&config.data_dir, config.webhooks.secrets.is_empty());
        let session_key = PendingSecret::start(dir, entropy, session_key).map_err(AppError::SessionKey)?;
        let log_key = PendingSecret::start(dir, entropy, log_key).map_err(AppError::LogKey)?;
        let webhook = needs_own.then(|| PendingSecret::start(dir, entropy, webhook_secret)).transpose();
        Ok(Self { session_key, log_key, webhook: webhook.map_err(AppError::WebhookSecret)? })
    }
}

/// A secret that a thread reads or creates while the server starts: a new one waits for the disk twice.
pub(super) struct PendingSecret<T>(JoinHandle<io::Result<T>>);

impl<T: NodeSecret + Send + 'static> PendingSecret<T> {
    /// Starts `provide` with the directory.
    fn start(
        dir: &Path,
        entropy: &Arc<dyn Entropy>,
        provide: fn(&Path, &dyn Entropy) -> io::Result<T>,
    ) -> io::Result<Self> {
        let (dir, entropy) = (dir.to_owned(), Arc::clone(entropy));
        let thread = Builder::new().name("secret".to_owned());
        Ok(Self(thread.spawn(move || provide(&dir, &*entropy))?))
    }

    /// Waits for it.
    pub(super) fn wait(self) -> io::Result<T> {
        self.0.join().unwrap_or_else(|_panic| Err(io::Error::other("its thread panicked")))
    }

    /// Waits for it. Nodes that share a store have the secret of the first one.
    pub(super) fn wait_shared(self, store: &dyn NodeStore) -> io::Result<T> {
        let own = self.wait()?;
        match store.shared_setting(T::SETTING, &own.to_text()) {
            Ok(None) => Ok(own),
            Ok(Some(text)) => T::from_text(&text).ok_or_else(|| {
                io::Error::new(ErrorKind::InvalidData, format!("the database has a damaged {}", T::SETTING))
            }),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }
}

/// A secret that all nodes of a store have.
pub(super) trait NodeSecret: Sized {
    /// Its name among the settings of the store.
    const SETTING: &'static str;
    /// Its text there.
    fn to_text(&self) -> String;
    /// Reads the text; `None` if it is no such secret.
    fn from_text(text: &str) -> Option<Self>;
}

/// The session key.
impl NodeSecret for Vec<u8> {
    const SETTING: &'static str = SESSION_KEY;

    fn to_text(&self) -> String {
        hex(self)
    }

    fn from_text(text: &str) -> Option<Self> {
        hex_bytes::<SESSION_KEY_BYTES>(text).map(Self::from)
    }
}

/// The key of logs.
impl NodeSecret for LogSigningKey {
    const SETTING: &'static str = LOG_KEY;

    fn to_text(&self) -> String {
        Self::to_text(self)
    }

    fn from_text(text: &str) -> Option<Self> {
        Self::from_text(text)
    }
}

/// The secret of webhooks.
impl NodeSecret for Secret {
    const SETTING: &'static str = WEBHOOK_SECRET;

    fn to_text(&self) -> String {
        self.reveal().to_owned()
    }

    fn from_text(text: &str) -> Option<Self> {
        let secret = Self::from(text.to_owned());
        Signer::new(std::slice::from_ref(&secret)).is_ok().then_some(secret)
    }
}

fn read_or_create(path: &Path, create: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let content = create();
            let draft = AtomicFile::begin(path)?;
            // A draft that was left behind keeps its mode.
            draft.file().set_permissions(Permissions::from_mode(0o600))?;
            draft.file().write_all(&content)?;
            draft.finish()?;
            Ok(content)
        }
        read => read,
    }
}

fn damaged(path: &Path, reason: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("'{}' {reason}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemEntropy;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    #[test]
    fn p9_a_session_key_is_created_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let key = PendingSecret::start(dir.path(), &entropy, session_key).expect("a thread");
        let key = key.wait().expect("created");
        assert_eq!(key.len(), SESSION_KEY_BYTES);
        assert_eq!(session_key(dir.path(), &SystemEntropy).expect("read"), key);
        assert_eq!(mode(&dir.path().join(SESSION_KEY)), 0o600);
        let other = tempfile::tempdir().expect("another");
        assert_ne!(session_key(other.path(), &SystemEntropy).expect("created"), key);
    }

    #[test]
    fn p9_a_webhook_secret_is_created_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("webhook_secret.part"), "whsec_half").expect("left behind by a crash");
        let secret = webhook_secret(dir.path(), &SystemEntropy).expect("created");
        assert!(Signer::new(std::slice::from_ref(&secret)).is_ok());
        assert_eq!(mode(&dir.path().join(WEBHOOK_SECRET)), 0o600);
        assert_eq!(webhook_secret(dir.path(), &SystemEntropy).expect("read"), secret);
        let other = tempfile::tempdir().expect("another");
        assert_ne!(webhook_secret(other.path(), &SystemEntropy).expect("created"), secret);
    }

    #[test]
    fn p9_a_damaged_file_is_refused_and_neither_shown_nor_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(SESSION_KEY), b"short").expect("written");
        let error = session_key(dir.path(), &SystemEntropy).expect_err("refused").to_string();
        assert!(error.contains(SESSION_KEY) && !error.contains("short"), "{error}");
        fs::write(dir.path().join(WEBHOOK_SECRET), "whsec_short\n").expect("written");
        let error = webhook_secret(dir.path(), &SystemEntropy).expect_err("refused").to_string();
        assert!(error.contains(WEBHOOK_SECRET) && !error.contains("whsec_short"), "{error}");
        assert_eq!(fs::read(dir.path().join(SESSION_KEY)).expect("kept"), b"short");
        assert_eq!(fs::read(dir.path().join(WEBHOOK_SECRET)).expect("kept"), b"whsec_short\n");
    }
}
