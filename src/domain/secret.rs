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

    /// The texts that give it away: itself, and of "Bearer sk-…" the second word, too.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        let mut words = self.0.split_whitespace().skip(1);
        let credential = words.next().filter(|_| words.next().is_none());
        let credential = credential.map(|word| Self(word.to_owned()));
        std::iter::once(self.clone()).chain(credential)
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
    fn p9_the_second_word_of_a_header_gives_it_away_too() {
        let parts = |text: &str| -> Vec<String> {
            Secret::from(text.to_owned()).parts().map(|part| part.0).collect()
        };
        assert_eq!(parts("Bearer sk-12345"), ["Bearer sk-12345", "sk-12345"]);
        assert_eq!(parts("sk-12345"), ["sk-12345"]);
        assert_eq!(parts("three plain words"), ["three plain words"]);
    }

    #[test]
    fn p9_neither_debug_nor_json_shows_it() {
        let key = Secret::from("sk-12345".to_owned());
        assert!(!format!("{key:?}").contains("12345"));
        assert_eq!(serde_json::to_string(&key).expect("serialises"), "\"***\"");
    }
}
