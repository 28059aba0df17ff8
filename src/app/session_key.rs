//! What sessions are signed with. Owns its file, readable by the owner alone; refuses to replace one that is there: all sessions
//! would be over. To end them, delete it and start anew.

use crate::ports::Entropy;
use crate::webhooks::keep_secret;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The file inside the data directory.
const NAME: &str = "session_key";
/// Its size, bytes: as much as the signature's hash has.
const BYTES: usize = 32;

/// The key kept in this directory; made, durably, when there is none.
pub(super) fn key_in(dir: &Path, entropy: &dyn Entropy) -> io::Result<Vec<u8>> {
    let path = dir.join(NAME);
    match fs::read(&path) {
        Ok(key) if key.len() == BYTES => Ok(key),
        Ok(_) => {
            let what = format!(
                "'{}' is damaged: it does not have {BYTES} bytes; delete it, and all log in anew",
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
    fn p9_a_key_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let key = key_in(dir.path(), &SystemEntropy).expect("made");
        assert_eq!((key.len(), &key_in(dir.path(), &SystemEntropy).expect("read")), (BYTES, &key));
        let access = fs::metadata(dir.path().join(NAME)).expect("a file").permissions().mode();
        assert_eq!(access & 0o777, 0o600);
        let other = tempfile::tempdir().expect("another");
        assert_ne!(key_in(other.path(), &SystemEntropy).expect("made"), key);
    }

    #[test]
    fn a_damaged_key_is_refused_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(NAME), b"short").expect("written");
        let error = key_in(dir.path(), &SystemEntropy).expect_err("refused").to_string();
        assert!(error.contains(NAME) && !error.contains("short"), "{error}");
    }
}
