//! Secrets that this server generates: API keys, invite codes and the control key. The store keeps their
//! SHA-256 only.

use crate::domain::secret::Secret;
use crate::ports::{Entropy, SecretDigest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest as _, Sha256};

/// What a secret is for. Its prefix names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// An API token's key.
    Key,
    /// An invite's code.
    Invite,
    /// The key of the command line on this machine.
    Control,
}

impl SecretKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Key => "nck_",
            Self::Invite => "nci_",
            Self::Control => "nckc_",
        }
    }
}

/// The characters behind the prefix: 256 bits in base64url.
const CHARS: usize = 43;
/// Last characters of a key, kept to tell keys apart.
const HINT_CHARS: usize = 4;

/// A fresh secret of 256 bits.
#[derive(Debug)]
pub(crate) struct GeneratedSecret {
    /// Shown once.
    pub(crate) secret: Secret,
    /// The stored digest.
    pub(crate) digest: SecretDigest,
    /// Its last characters.
    pub(crate) hint: String,
}

pub(crate) fn generate(kind: SecretKind, entropy: &dyn Entropy) -> GeneratedSecret {
    with_random(kind, &entropy.random_key())
}

/// A secret that only holders of the key can compute from the text.
pub(crate) fn derive(kind: SecretKind, key: &[u8], text: &str) -> GeneratedSecret {
    let mut mac = Hmac::<Sha256>::new_from_slice(key)
        .unwrap_or_else(|_| unreachable!("HMAC takes a key of any length"));
    mac.update(text.as_bytes());
    with_random(kind, &mac.finalize().into_bytes())
}

fn with_random(kind: SecretKind, random: &[u8]) -> GeneratedSecret {
    let text = format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(random));
    let hint = text.get(text.len().saturating_sub(HINT_CHARS)..).unwrap_or_default().to_owned();
    GeneratedSecret { digest: digest(&text), secret: text.into(), hint }
}

/// The digest of a text that has the form of such a secret, else `None`. A lookup by digest reveals nothing
/// about similar secrets.
pub(crate) fn digest_of(kind: SecretKind, text: &str) -> Option<SecretDigest> {
    let secret = text.strip_prefix(kind.prefix())?;
    let is_plain = secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    (is_plain && secret.len() == CHARS).then(|| digest(text))
}

/// The digest of the whole secret, prefix included.
pub(crate) fn digest(secret: &str) -> SecretDigest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Rising(AtomicU64);

    impl Entropy for Rising {
        fn random(&self) -> u128 {
            u128::from(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    #[test]
    fn an_api_key_has_a_prefix_43_random_characters_and_a_unique_digest() {
        let entropy = Rising(AtomicU64::new(0));
        let (one, two) = (generate(SecretKind::Key, &entropy), generate(SecretKind::Key, &entropy));
        let text = one.secret.reveal();
        assert!(text.starts_with("nck_") && text.len() == 47 && text.ends_with(&one.hint), "{text}");
        assert_eq!((one.hint.len(), one.digest), (4, digest(text)));
        assert!(one.digest != two.digest && one.secret != two.secret);
        assert!(!format!("{one:?}").contains(text), "P9");
        assert_eq!(digest_of(SecretKind::Key, text), Some(one.digest), "what is minted is looked up");
        assert_eq!(digest_of(SecretKind::Invite, text), None, "each for its own");
    }

    #[test]
    fn only_well_formed_keys_are_looked_up() {
        let key = format!("nck_{}", "aZ09-_x".repeat(7).get(..43).expect("long enough"));
        assert!(digest_of(SecretKind::Key, &key).is_some());
        for bad in ["", "nck_", &key[1..], &key[..46], &format!("{key}A"), &key.replace('-', "+")] {
            assert_eq!(digest_of(SecretKind::Key, bad), None, "{bad}");
        }
    }
}
