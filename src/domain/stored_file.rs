//! Files of `/v1/files`. The store has their rows; their contents are kept outside of it, by digest.

use super::hex::{hex, hex_bytes};
use super::id::{FileId, UserId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// SHA-256 of a content; as text 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    /// The digest with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn to_bytes(self) -> [u8; 32] {
        self.0
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl FromStr for ContentDigest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex_bytes(text).map(Self).ok_or("must be 64 lower-case hexadecimal digits")
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ContentDigest> for String {
    fn from(digest: ContentDigest) -> Self {
        digest.to_string()
    }
}

/// What a file is for.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePurpose {
    /// Lines of a batch.
    Batch,
    /// Anything that a user gives to a model.
    UserData,
    /// An image.
    Vision,
    /// Results of a batch; made by the server only.
    BatchOutput,
}

impl FilePurpose {
    /// The purposes that a client may name in an upload.
    pub const OF_CLIENTS: [Self; 3] = [Self::Batch, Self::UserData, Self::Vision];
    /// All purposes.
    pub const ALL: [Self; 4] = [Self::Batch, Self::UserData, Self::Vision, Self::BatchOutput];

    /// Its name in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::UserData => "user_data",
            Self::Vision => "vision",
            Self::BatchOutput => "batch_output",
        }
    }
}

/// A file of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Id.
    pub id: FileId,
    /// Owner.
    pub user: UserId,
    /// The client's name of it; never a path of this server.
    pub name: String,
    /// What it is for.
    pub purpose: FilePurpose,
    /// Length of its content.
    pub bytes: u64,
    /// Its content.
    pub content: ContentDigest,
    /// When it was uploaded, unix milliseconds.
    pub created_at_ms: u64,
    /// When it is removed, unix milliseconds; `None`: when its owner deletes it.
    pub expires_at_ms: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_text_of_a_digest_round_trips(bytes: [u8; 32]) {
            let digest = ContentDigest::from_bytes(bytes);
            prop_assert_eq!(digest.to_string().parse(), Ok(digest));
        }
    }

    #[test]
    fn a_digest_has_one_spelling() {
        let good = "0f".repeat(32);
        assert!(good.parse::<ContentDigest>().is_ok());
        for bad in ["", "0f", &good.to_uppercase(), &good.replace('0', "+"), &format!("{good}0f")] {
            assert!(bad.parse::<ContentDigest>().is_err(), "{bad}");
        }
    }

    #[test]
    fn purposes_are_written_as_the_api_names_them() {
        for purpose in FilePurpose::ALL {
            assert_eq!(serde_json::json!(purpose), purpose.as_str());
        }
    }
}
