//! The key that signs sessions: a file that only its owner can read. A damaged file is an error; to end all
//! sessions, delete it and restart.

use crate::ports::Entropy;
use crate::webhooks::keep_secret;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

const NAME: &str = "session_key";
/// Size of the key, bytes: that of the signature's hash.
const BYTES: usize = 32;

/// Reads the key from this directory, or creates it durably.
pub(super) fn key_in(dir: &Path, entropy: &dyn Entropy) -> io::Result<Vec<u8>> {
    let path = dir.join(NAME);
    match fs::read(&path) {
        Ok(key) if key.len() == BYTES => Ok(key),
        Ok(_) => {
            let what = format!(
                "'{}' is damaged: it does not have {BYTES} bytes; delete it, and all users log in again",
                path.display()
            );
            Err(io::Error::new(ErrorKind::InvalidData, what))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let key = entropy.random_key().to_vec();
            keep_secret(dir, NAME, &key)?;
            Ok(key)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemEntropy;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn p9_a_key_is_created_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = key_in(dir.path(), &SystemEntropy).expect("made");
        assert_eq!((key.len(), &key_in(dir.path(), &SystemEntropy).expect("read")), (BYTES, &key));
        let access = fs::metadata(dir.path().join(NAME)).expect("a file").permissions().mode();
        assert_eq!(access & 0o777, 0o600);
        let other = tempfile::tempdir().expect("another");
        assert_ne!(key_in(other.path(), &SystemEntropy).expect("made"), key);
    }

    #[test]
    fn a_damaged_key_is_an_error() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(NAME), b"short").expect("written");
        let error = key_in(dir.path(), &SystemEntropy).expect_err("refused").to_string();
        assert!(error.contains(NAME) && !error.contains("short"), "{error}");
    }
}
