//! Texts that must never be shown (P9). Owns their masking; refuses `Display`, and prints `***` for `Debug` and JSON.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A key or a token. Only [`Secret::reveal`] gives it out.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the wire and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "\"***\"" })
    }
}

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(if self.0.is_empty() { "" } else { "***" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_neither_debug_nor_json_shows_it() {
        let key = Secret::from("sk-12345".to_owned());
        assert!(!format!("{key:?}").contains("12345"));
        assert_eq!(serde_json::to_string(&key).expect("serialises"), "\"***\"");
    }
}
