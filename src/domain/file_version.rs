//! The version of a file: another one whenever its content is another one. HTTP shows it as `ETag`.

use super::hex::hex;
use sha2::{Digest as _, Sha256};
use std::fmt;

/// Bytes of the digest that a version keeps.
const KEPT_BYTES: usize = 16;

/// The version of a file; its text is hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion([u8; KEPT_BYTES]);

impl FileVersion {
    /// The version of a file with this content.
    pub fn of_content(content: &[u8]) -> Self {
        Self::of(Sha256::new().chain_update([0]).chain_update(content))
    }

    /// The version of a file that is too large to be read for this, from its identity, size and times.
    pub fn of_status(numbers: &[i128]) -> Self {
        let digest = Sha256::new().chain_update([1]);
        Self::of(numbers.iter().fold(digest, |digest, number| digest.chain_update(number.to_be_bytes())))
    }

    fn of(digest: Sha256) -> Self {
        Self(digest.finalize().first_chunk().copied().unwrap_or_default())
    }
}

impl fmt::Display for FileVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// What must be true of a file for a change to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum FileCondition {
    /// Nothing.
    #[default]
    Always,
    /// Nothing is at the path.
    Missing,
    /// Something is at the path.
    Exists,
    /// A file is at the path, and its version has one of these texts.
    Versions(Vec<String>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_version_has_32_digits_and_depends_on_the_content() {
        let one = FileVersion::of_content(b"a");
        assert_eq!(one.to_string().len(), 32);
        assert_eq!(one, FileVersion::of_content(b"a"));
        assert_ne!(one, FileVersion::of_content(b"b"));
        assert_ne!(FileVersion::of_content(&1_i128.to_be_bytes()), FileVersion::of_status(&[1]));
    }
}
