//! The server's Ed25519 key, which signs notes about folded logs, and its public part.

use super::super::hex::{hex, hex_bytes};
use ring::hmac;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The key that signs. Its text is its seed: 64 lower-case hexadecimal digits, a secret.
pub struct LogSigningKey {
    seed: [u8; 32],
    pair: Ed25519KeyPair,
}

impl LogSigningKey {
    /// The key of a random seed.
    pub fn from_seed(seed: [u8; 32]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).ok()?;
        Some(Self { seed, pair })
    }

    /// Reads its text.
    pub fn from_text(text: &str) -> Option<Self> {
        hex_bytes(text).and_then(Self::from_seed)
    }

    /// Its secret text.
    pub fn to_text(&self) -> String {
        hex(&self.seed)
    }

    /// The signature of a message.
    pub fn sign(&self, message: &[u8]) -> LogSignature {
        let mut bytes = [0; 64];
        let signature = self.pair.sign(message);
        bytes.iter_mut().zip(signature.as_ref()).for_each(|(byte, of_signature)| *byte = *of_signature);
        LogSignature(bytes)
    }

    /// Another secret key, for one purpose: always the same.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut bytes = [0; 32];
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &self.seed), purpose.as_bytes());
        bytes.iter_mut().zip(derived.as_ref()).for_each(|(byte, of_key)| *byte = *of_key);
        bytes
    }

    /// The key that verifies signatures.
    pub fn public_key(&self) -> LogPublicKey {
        let mut bytes = [0; 32];
        let public = self.pair.public_key().as_ref();
        bytes.iter_mut().zip(public).for_each(|(byte, of_key)| *byte = *of_key);
        LogPublicKey(bytes)
    }
}

impl fmt::Debug for LogSigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSigningKey(***)")
    }
}

/// A public Ed25519 key; as text 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPublicKey(pub [u8; 32]);

impl LogPublicKey {
    /// Whether this key has signed the message.
    pub fn has_signed(&self, message: &[u8], signature: &LogSignature) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.0).verify(message, &signature.0).is_ok()
    }

    /// Reads its text.
    pub fn from_text(text: &str) -> Option<Self> {
        hex_bytes(text).map(Self)
    }
}

impl fmt::Display for LogPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

/// An Ed25519 signature; as text 128 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LogSignature(pub [u8; 64]);

impl TryFrom<String> for LogSignature {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        hex_bytes(&text).map(Self).ok_or("must be 128 lower-case hexadecimal digits")
    }
}

impl From<LogSignature> for String {
    fn from(LogSignature(bytes): LogSignature) -> Self {
        hex(&bytes)
    }
}
