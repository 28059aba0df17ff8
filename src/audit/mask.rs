//! Masks secrets in the audit log (P9): values with secret names, texts that look like keys, and the secrets
//! of the configuration. It is a second line of defence: tools do not get secrets of the server.

use crate::domain::secret::{Redactor, Secret};
use regex::{Regex, RegexSet};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Replacement for a secret.
const MASKED: &str = "***";
/// Levels of JSON inside JSON texts that are searched.
const TEXT_DEPTH: u8 = 4;
/// Parts of secret names, in lower case and without punctuation.
const SECRET_NAMES: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "privatekey",
    "accesskey",
    "bearer",
];
/// Endings of secret names.
const SECRET_ENDS: [&str; 3] = ["token", "pwd", "signature"];
/// Texts that look like secrets, and their replacements.
const PATTERNS: [(&str, &str); 15] = [
    (r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)", MASKED),
    (
        r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token)(\s*:\s*)[^\r\n'\x22]+",
        "$1$2***",
    ),
    (r"(?i)\b(bearer\s+)[a-z0-9._~+/=-]{8,}", "$1***"),
    (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", MASKED),
    (r"\b[sprk]k[-_][A-Za-z0-9_-]{8,}", MASKED),
    (r"\bgh[oprsu]_[A-Za-z0-9]{16,}", MASKED),
    (r"\bgithub_pat_[A-Za-z0-9_]{16,}", MASKED),
    (r"\bglpat-[A-Za-z0-9_-]{16,}", MASKED),
    (r"\bxox[a-z]-[A-Za-z0-9-]{8,}", MASKED),
    (r"\b(?:nc[a-z]+_|whsec_)[A-Za-z0-9+/=_-]{8,}", MASKED),
    (r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b", MASKED),
    (r"(://)[^/\s:@'\x22]*:[^/\s@'\x22]+@", "$1***@"),
    (
        r"(?i)\b([a-z0-9_-]*(?:password|passwd|pwd|secret|token|api_?-?key|signature|\bsig)=)[^\s&;'\x22]+",
        "$1***",
    ),
    (r"(?i)\b((?:password|passwd|passphrase|pwd|secret|api[ _-]?key)\s*:\s+)[^\s,;'\x22]+", "$1***"),
    // JSON inside another text.
    (
        r"(?i)(\\?[\x22'][a-z0-9_-]*(?:password|passwd|secret|token|api_?-?key)\\?[\x22']\s*:\s*\\?[\x22'])[^\x22'\\]+",
        "$1***",
    ),
];

/// Compiled with the first text, because that takes longer than the rest of a start. If one does not compile,
/// every text is masked.
static COMPILED: LazyLock<Result<SecretPatterns, regex::Error>> = LazyLock::new(|| {
    let any = RegexSet::new(PATTERNS.map(|(pattern, _)| pattern))?;
    let each = PATTERNS.iter().map(|(pattern, replacement)| Ok((Regex::new(pattern)?, *replacement)));
    Ok(SecretPatterns { any, each: each.collect::<Result<_, regex::Error>>()? })
});

struct SecretPatterns {
    /// Most texts match no pattern, which this finds out in one pass.
    any: RegexSet,
    each: Vec<(Regex, &'static str)>,
}

pub(super) struct SecretMask(Redactor);

impl SecretMask {
    /// Masks these secrets as well as everything that looks like one.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Self {
        Self(Redactor::new(secrets))
    }

    pub(super) fn value(&self, value: &Value) -> Value {
        self.masked(value, TEXT_DEPTH)
    }

    /// The text without secrets; in JSON also without values that have secret names.
    pub(super) fn text(&self, text: &str) -> String {
        self.masked_text(text, TEXT_DEPTH)
    }

    fn masked(&self, value: &Value, depth: u8) -> Value {
        match value {
            Value::String(text) => self.masked_text(text, depth).into(),
            Value::Array(items) => items.iter().map(|item| self.masked(item, depth)).collect(),
            Value::Object(map) => {
                let entry = |(name, item): (&String, &Value)| {
                    let is_hidden = is_secret_name(name) && !item.is_null();
                    let item = if is_hidden { MASKED.into() } else { self.masked(item, depth) };
                    (self.redact(name), item)
                };
                map.iter().map(entry).collect()
            }
            other => other.clone(),
        }
    }

    fn masked_text(&self, text: &str, depth: u8) -> String {
        let looks_like_json = text.trim_start().starts_with(['{', '[']);
        let inner = Some(text).filter(|_| looks_like_json && depth > 0);
        if let Some(value) = inner.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
            let masked = self.masked(&value, depth.saturating_sub(1));
            // A text without secrets keeps its format.
            return if masked == value { text.to_owned() } else { masked.to_string() };
        }
        self.redact(text)
    }

    fn redact(&self, text: &str) -> String {
        let Ok(patterns) = &*COMPILED else { return MASKED.to_owned() };
        let mut masked = self.0.redact(text);
        if !patterns.any.is_match(&masked) {
            return masked;
        }
        for (pattern, replacement) in &patterns.each {
            if let Cow::Owned(replaced) = pattern.replace_all(&masked, *replacement) {
                masked = replaced;
            }
        }
        masked
    }
}

fn is_secret_name(name: &str) -> bool {
    let letters: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let has_secret_ending = || SECRET_ENDS.iter().any(|end| letters.ends_with(end));
    letters == "auth" || SECRET_NAMES.iter().any(|part| letters.contains(part)) || has_secret_ending()
}
