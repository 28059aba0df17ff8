//! Signatures after Standard Webhooks 1.0: HMAC-SHA256 over `id.timestamp.body`.

use crate::domain::secret::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Prefix of every secret.
const PREFIX: &str = "whsec_";
/// Allowed key length, bytes (Standard Webhooks 1.0).
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// A text that is not a secret. The error does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be whsec_ followed by the base64 of 24 to 64 random bytes")]
pub struct InvalidSecret;

/// Signs with every secret, so that a receiver which knows one of them accepts the request while secrets are
/// replaced.
#[derive(Clone)]
pub struct Signer(Vec<Hmac<Sha256>>);

impl Signer {
    /// A signer with these secrets. An invalid one fails with its index.
    pub fn new(secrets: &[Secret]) -> Result<Self, (usize, InvalidSecret)> {
        let keyed = secrets.iter().enumerate().map(|(at, secret)| keyed(secret).map_err(|bad| (at, bad)));
        Ok(Self(keyed.collect::<Result<_, _>>()?))
    }

    /// Value of the `webhook-signature` header.
    pub fn sign(&self, id: &str, timestamp_s: u64, body: &[u8]) -> String {
        let signed = self.0.iter().map(|key| {
            let mut mac = key.clone();
            mac.update(format!("{id}.{timestamp_s}.").as_bytes());
            mac.update(body);
            format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
        });
        signed.collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer of {} secrets", self.0.len())
    }
}

/// The secret text of this key.
pub fn secret_from_key(key: &[u8]) -> Secret {
    Secret::from(format!("{PREFIX}{}", STANDARD.encode(key)))
}

fn keyed(secret: &Secret) -> Result<Hmac<Sha256>, InvalidSecret> {
    let key = secret.reveal().strip_prefix(PREFIX).and_then(|text| STANDARD.decode(text).ok());
    let key = key.filter(|key| KEY_BYTES.contains(&key.len())).ok_or(InvalidSecret)?;
    Hmac::new_from_slice(&key).map_err(|_| InvalidSecret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::from(text.to_owned())
    }

    /// The example of the reference implementations' documentation; Python agrees:
    /// `base64.b64encode(hmac.new(base64.b64decode("MfKQ9…"), b"msg_….1614265330.{…}",
    /// hashlib.sha256).digest())`.
    #[test]
    fn the_signature_matches_the_standard_webhooks_test_vector() {
        let signer = Signer::new(&[secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]).expect("a secret");
        let value = signer.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b"{\"test\": 2432232314}");
        assert_eq!(value, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn each_secret_signs_during_a_rotation() {
        let (old, new) = (secret_from_key(&[1; 32]), secret_from_key(&[2; 32]));
        let sign = |secrets: &[Secret]| Signer::new(secrets).expect("secrets").sign("whd_1", 7, b"{}");
        let both = sign(&[new.clone(), old.clone()]);
        assert_eq!(both, format!("{} {}", sign(&[new]), sign(&[old])));
    }

    #[test]
    fn p9_an_invalid_secret_is_refused_and_not_repeated() {
        let short = secret_from_key(&[1; 23]);
        for bad in ["", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_%%%", short.reveal()] {
            let refused = Signer::new(&[secret_from_key(&[1; 24]), secret(bad)]).expect_err(bad);
            assert_eq!(refused, (1, InvalidSecret), "{bad}");
        }
        assert!(Signer::new(&[secret_from_key(&[1; 65])]).is_err());
        assert!(!format!("{:?}", Signer::new(&[secret_from_key(&[1; 64])])).contains("AQEB"));
    }
}
