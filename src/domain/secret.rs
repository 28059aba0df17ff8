//! Secrets (P9). `Debug` and JSON print `***`, and there is no `Display`.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Replacement for a secret.
const MASKED: &str = "***";
/// Shorter secrets are not masked, because they occur in harmless texts; bytes.
const SECRET_BYTES: usize = 6;

/// A key or token. Only [`Secret::reveal`] returns it.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the wire only.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The texts to mask: the secret, and for "Bearer sk-…" also its second word.
    pub fn parts(&self) -> impl Iterator<Item = Self> {
        let mut rest = self.0.split_whitespace().skip(1);
        let credential = rest.next().filter(|_| rest.next().is_none());
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

/// Masks known secrets in other texts.
#[derive(Debug, Clone, Default)]
pub struct Redactor(Vec<Secret>);

impl Redactor {
    /// Masks these secrets and their parts of at least six bytes.
    pub fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        let parts = secrets.flat_map(Secret::parts).filter(|secret| secret.0.len() >= SECRET_BYTES);
        let mut parts: Vec<Secret> = parts.collect();
        // A secret may be part of another one: mask the longest first.
        parts.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
        Self(parts)
    }

    /// The text with secrets masked.
    pub fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| {
            if text.contains(&secret.0) { text.replace(&secret.0, MASKED) } else { text }
        })
    }

    /// The value with secrets masked, in keys and numbers, too.
    pub fn redact_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.redact_value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, item)| (self.redact(&name), self.redact_value(item))).collect()
            }
            Value::Number(number) => {
                let written = number.to_string();
                let shown = self.redact(&written);
                if shown == written { Value::Number(number) } else { Value::String(shown) }
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn p9_a_redactor_hides_known_secrets_and_nothing_else() {
        let secrets =
            ["Bearer sk-12345", "sk-12345-long", "1", "7777777"].map(|text| Secret::from(text.to_owned()));
        let redactor = Redactor::new(secrets.iter());
        let value =
            json!({"sk-12345": [1, true, "a sk-12345-long b", 17_777_777], "n": {"x": "Bearer sk-12345"}});
        let shown = json!({"***": [1, true, "a *** b", "1***"], "n": {"x": "***"}});
        assert_eq!(redactor.redact_value(value), shown);
        let harmless = json!({"n": [1, 2.5, "Bearer of news", null]});
        assert_eq!(redactor.redact_value(harmless.clone()), harmless);
    }

    #[test]
    fn p9_the_second_word_of_a_header_value_is_a_secret_too() {
        let parts = |text: &str| -> Vec<String> {
            Secret::from(text.to_owned()).parts().map(|part| part.0).collect()
        };
        assert_eq!(parts("Bearer sk-12345"), ["Bearer sk-12345", "sk-12345"]);
        assert_eq!(parts("sk-12345"), ["sk-12345"]);
        assert_eq!(parts("three plain words"), ["three plain words"]);
    }

    #[test]
    fn p9_debug_and_json_output_hide_a_secret() {
        let key = Secret::from("sk-12345".to_owned());
        assert!(!format!("{key:?}").contains("12345"));
        assert_eq!(serde_json::to_string(&key).expect("serialises"), "\"***\"");
    }
}
