//! The generated signing secret, in a file for the owner only. An existing file is never replaced, because
//! receivers know it.

use super::signature::{Signer, secret_of};
use crate::domain::secret::Secret;
use crate::ports::Entropy;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// File name in the data directory.
const NAME: &str = "webhook_secret";
/// Suffix while the file is written, so that a crash leaves no partial secret.
const DRAFT: &str = ".new";

/// Reads the secret in `dir`, or durably creates one.
pub fn secret_in(dir: &Path, entropy: &dyn Entropy) -> io::Result<Secret> {
    let path = dir.join(NAME);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let secret = Secret::from(text.trim().to_owned());
            match Signer::new(std::slice::from_ref(&secret)) {
                Ok(_) => Ok(secret),
                Err((_, bad)) => {
                    Err(io::Error::new(ErrorKind::InvalidData, format!("'{}' {bad}", path.display())))
                }
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => make(dir, entropy),
        Err(error) => Err(error),
    }
}

fn make(dir: &Path, entropy: &dyn Entropy) -> io::Result<Secret> {
    let key = entropy.random_key();
    let secret = secret_of(&key);
    keep_secret(dir, NAME, format!("{}\n", secret.reveal()).as_bytes())?;
    Ok(secret)
}

/// Writes a secret file atomically and durably, readable by its owner only.
pub fn keep_secret(dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let draft = dir.join(format!("{name}{DRAFT}"));
    match fs::remove_file(&draft) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&draft, dir.join(name))?;
    File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Counting(AtomicU64);

    impl Entropy for Counting {
        fn random(&self) -> u128 {
            u128::from(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    #[test]
    fn p9_a_secret_is_made_once_and_for_its_owner_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let entropy = Counting::default();
        fs::write(dir.path().join("webhook_secret.new"), "whsec_half").expect("left behind by a crash");
        let made = secret_in(dir.path(), &entropy).expect("a secret");
        assert!(Signer::new(std::slice::from_ref(&made)).is_ok());
        let access = fs::metadata(dir.path().join(NAME)).expect("a file").permissions().mode();
        assert_eq!(access & 0o777, 0o600);
        assert_eq!(secret_in(dir.path(), &entropy).expect("read"), made);
        assert_ne!(secret_in(tempfile::tempdir().expect("another").path(), &entropy).expect("made"), made);
    }

    #[test]
    fn a_damaged_file_is_refused_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join(NAME), "whsec_short\n").expect("written");
        let error = secret_in(dir.path(), &Counting::default()).expect_err("refused").to_string();
        assert!(error.contains(NAME) && !error.contains("whsec_short"), "{error}");
    }
}
