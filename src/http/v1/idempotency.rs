//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07), as a structured-field string or bare.

use crate::domain::idempotency::IdempotencyKey;
use crate::http::error::ApiError;
use hyper::HeaderMap;
use sha2::{Digest, Sha256};

const NAME: &str = "idempotency-key";

/// The longest key, characters.
const KEY_CHARS: usize = 255;

/// The key of the request, if it has one.
pub(crate) fn key(headers: &HeaderMap) -> Result<Option<KeyDigest>, ApiError> {
    let mut lines = headers.get_all(NAME).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(wrong("it is given twice"));
    }
    let text = line.to_str().map_err(|_| wrong("it holds characters beyond ASCII"))?.trim();
    let bare = match text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').ok_or_else(|| wrong("its quotation mark is not closed"))?,
        None => text,
    };
    of_text(bare).map(Some)
}

/// The key of this text.
pub(crate) fn of_text(text: &str) -> Result<KeyDigest, ApiError> {
    if text.is_empty() || text.len() > KEY_CHARS {
        return Err(wrong("it must have 1 to 255 characters"));
    }
    Ok(KeyDigest(Sha256::digest(text).into()))
}

/// Refuses a key on a route that does not remember keys.
pub(crate) fn refuse(headers: &HeaderMap, why: &str) -> Result<(), ApiError> {
    if headers.contains_key(NAME) { Err(wrong(why)) } else { Ok(()) }
}

/// The SHA-256 of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyDigest([u8; 32]);

impl KeyDigest {
    pub(crate) fn digest(self) -> [u8; 32] {
        self.0
    }

    /// The key with the fingerprint of its request.
    pub(crate) fn of(self, fingerprint: RequestFingerprint) -> IdempotencyKey {
        IdempotencyKey { key: self.0, fingerprint: fingerprint.0.finalize().into() }
    }
}

/// A hash of a request's kind and body, fed as the body arrives.
pub(crate) struct RequestFingerprint(Sha256);

impl RequestFingerprint {
    /// `kind` separates jobs from batches under the same key.
    pub(crate) fn new(kind: &str) -> Self {
        Self(Sha256::new().chain_update(kind).chain_update([0]))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

fn wrong(why: &str) -> ApiError {
    ApiError::value("Idempotency-Key", format!("the Idempotency-Key cannot be used: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<KeyDigest>, ApiError> {
        let mut headers = HeaderMap::new();
        headers.insert(NAME, line.parse().expect("a header value"));
        key(&headers)
    }

    #[test]
    fn quoted_and_bare_idempotency_keys_are_equal() {
        assert_eq!(read("\"abc\"").expect("a key"), read(" abc ").expect("a key"));
        assert_ne!(read("abc").expect("a key"), read("abd").expect("a key"));
        assert!(key(&HeaderMap::new()).expect("no key").is_none());
    }

    #[test]
    fn invalid_idempotency_keys_are_refused() {
        for bad in ["", "\"\"", "\"abc", &"x".repeat(256)] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_the_header_and_no_type_of_the_program() {
        for bad in ["\"\"", "\"abc", &"x".repeat(256)] {
            let error = read(bad).expect_err("refused");
            let text = error.to_string();
            assert_eq!(error.param(), Some("Idempotency-Key"));
            assert!(text.starts_with("the Idempotency-Key cannot be used: "), "{text}");
            for name in ["::", "KeyDigest", "IdempotencyKey", "RequestFingerprint", "HeaderValue"] {
                assert!(!text.contains(name), "{text}");
            }
        }
    }

    #[test]
    fn routes_without_idempotency_refuse_a_key() {
        assert!(refuse(&HeaderMap::new(), "why").is_ok());
        let headers = HeaderMap::from_iter([(
            hyper::header::HeaderName::from_static(NAME),
            "k".parse().expect("a value"),
        )]);
        assert!(refuse(&headers, "why").is_err());
    }

    #[test]
    fn a_fingerprint_differs_by_request_kind_and_body() {
        let of = |kind: &str, pieces: &[&str]| {
            let mut fingerprint = RequestFingerprint::new(kind);
            for piece in pieces {
                fingerprint.update(piece.as_bytes());
            }
            KeyDigest([0; 32]).of(fingerprint)
        };
        assert_eq!(of("job", &["ab", "c"]), of("job", &["abc"]));
        assert_ne!(of("job", &["abc"]), of("batch", &["abc"]));
        assert_ne!(of("job", &["abc"]), of("job", &["abd"]));
    }
}
