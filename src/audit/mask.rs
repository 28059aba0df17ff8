//! What nobody may read in the audit log (P9): values whose names say that they are secret, texts that look like keys, and
//! the secrets of the configuration wherever they stand. Owns what counts as one; refuses to be the only wall: no tool is
//! given secrets of the server.

use crate::domain::secret::Secret;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;

/// What stands for a secret.
const MASKED: &str = "***";
/// JSON texts inside JSON texts that are looked into.
const TEXT_DEPTH: u8 = 4;
/// A configured secret that is shorter stands in too many harmless texts, bytes.
const SECRET_BYTES: usize = 6;
/// Names of secrets, without case and signs, wherever they stand in a name.
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
/// The same, where a name ends with them.
const SECRET_ENDS: [&str; 3] = ["token", "pwd", "signature"];
/// Texts that are secrets whatever they are called, and what stands for them.
const SHAPES: [(&str, &str); 15] = [
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
    // JSON inside of another text.
    (
        r"(?i)(\\?[\x22'][a-z0-9_-]*(?:password|passwd|secret|token|api_?-?key)\\?[\x22']\s*:\s*\\?[\x22'])[^\x22'\\]+",
        "$1***",
    ),
];

/// The shapes, made when the first text comes: they take longer than the rest of a start. Were one no expression, nothing could
/// be told from a secret.
static MADE: LazyLock<Result<Vec<(Regex, &'static str)>, regex::Error>> =
    LazyLock::new(|| SHAPES.iter().map(|(shape, stands)| Ok((Regex::new(shape)?, *stands))).collect());

/// Masks secrets.
pub(super) struct Mask {
    secrets: Vec<Secret>,
}

impl Mask {
    /// Knows these secrets beside what secrets look like.
    pub(super) fn new(secrets: &[Secret]) -> Self {
        let long = secrets.iter().filter(|secret| secret.reveal().len() >= SECRET_BYTES);
        let mut secrets: Vec<Secret> = long.cloned().collect();
        // One may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.reveal().len()));
        Self { secrets }
    }

    /// The value without secrets.
    pub(super) fn value(&self, value: &Value) -> Value {
        self.masked(value, TEXT_DEPTH)
    }

    /// The text without secrets; if it is JSON, without those that only their names tell.
    pub(super) fn text(&self, text: &str) -> String {
        self.masked_text(text, TEXT_DEPTH)
    }

    fn masked(&self, value: &Value, depth: u8) -> Value {
        match value {
            Value::String(text) => self.masked_text(text, depth).into(),
            Value::Array(items) => items.iter().map(|item| self.masked(item, depth)).collect(),
            Value::Object(map) => {
                let entry = |(name, item): (&String, &Value)| {
                    let is_hidden = is_secret(name) && !item.is_null();
                    let item = if is_hidden { MASKED.into() } else { self.masked(item, depth) };
                    (self.plain(name), item)
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
            // What holds no secret keeps its spelling.
            return if masked == value { text.to_owned() } else { masked.to_string() };
        }
        self.plain(text)
    }

    fn plain(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for secret in &self.secrets {
            if masked.contains(secret.reveal()) {
                masked = masked.replace(secret.reveal(), MASKED);
            }
        }
        let Ok(shapes) = &*MADE else { return MASKED.to_owned() };
        for (shape, stands) in shapes {
            if shape.is_match(&masked) {
                masked = shape.replace_all(&masked, *stands).into_owned();
            }
        }
        masked
    }
}

/// Whether a value of this name is a secret.
fn is_secret(name: &str) -> bool {
    let bare: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let ends = || SECRET_ENDS.iter().any(|end| bare.ends_with(end));
    bare == "auth" || SECRET_NAMES.iter().any(|part| bare.contains(part)) || ends()
}
