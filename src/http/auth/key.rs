//! API keys: `nck_` and 43 characters. Owns what one looks like and what it is found by; refuses to keep one.

use super::minted;
use crate::ports::Digest;

/// What every key begins with, so that it is known for one wherever it turns up.
const PREFIX: &str = "nck_";
/// The characters that follow: 256 bits in base64url.
const CHARS: usize = 43;

/// What the key is found by; `None`: it is no key of ours. Looking up a digest tells nothing about keys that are close.
pub(crate) fn digest_of(text: &str) -> Option<Digest> {
    let secret = text.strip_prefix(PREFIX)?;
    let plain = secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    (plain && secret.len() == CHARS).then(|| minted::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_looks_like_a_key_is_looked_up() {
        let key = format!("nck_{}", "aZ09-_x".repeat(7).get(..43).expect("long enough"));
        assert!(digest_of(&key).is_some());
        for bad in ["", "nck_", &key[1..], &key[..46], &format!("{key}A"), &key.replace('-', "+")] {
            assert_eq!(digest_of(bad), None, "{bad}");
        }
    }
}
