//! Secrets that this server makes up: API keys, codes of invites, the key of its own command line. Owns how they are spelled
//! and what they are found by; refuses to keep one.

use crate::domain::secret::Secret;
use crate::ports::{Entropy, SecretDigest};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

/// What a secret is for; it is known by it wherever it turns up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretKind {
    /// An API token's key.
    Key,
    /// An invite's code.
    Invite,
    /// What the command line shows to the server beside it.
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
/// Characters of a key that are kept to tell keys apart.
const HINT_CHARS: usize = 4;

/// A fresh secret of 256 bits.
#[derive(Debug)]
pub(crate) struct GeneratedSecret {
    /// To be shown once.
    pub(crate) secret: Secret,
    /// What it is found by.
    pub(crate) digest: SecretDigest,
    /// Its last characters.
    pub(crate) hint: String,
}

/// Makes one up.
pub(crate) fn generate(kind: SecretKind, entropy: &dyn Entropy) -> GeneratedSecret {
    let text = format!("{}{}", kind.prefix(), URL_SAFE_NO_PAD.encode(entropy.random_key()));
    let hint = text.get(text.len().saturating_sub(HINT_CHARS)..).unwrap_or_default().to_owned();
    GeneratedSecret { digest: digest(&text), secret: text.into(), hint }
}

/// What the text is found by, if it looks like a secret of ours; `None`: nothing needs to be looked up. Looking up a digest
/// tells nothing about secrets that are close.
pub(crate) fn digest_of(kind: SecretKind, text: &str) -> Option<SecretDigest> {
    let secret = text.strip_prefix(kind.prefix())?;
    let is_plain = secret.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    (is_plain && secret.len() == CHARS).then(|| digest(text))
}

/// What a secret is found by: all of it, prefix included.
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
    fn a_key_has_a_prefix_and_43_characters_and_is_never_the_same() {
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
    fn only_what_looks_like_a_key_is_looked_up() {
        let key = format!("nck_{}", "aZ09-_x".repeat(7).get(..43).expect("long enough"));
        assert!(digest_of(SecretKind::Key, &key).is_some());
        for bad in ["", "nck_", &key[1..], &key[..46], &format!("{key}A"), &key.replace('-', "+")] {
            assert_eq!(digest_of(SecretKind::Key, bad), None, "{bad}");
        }
    }
}
