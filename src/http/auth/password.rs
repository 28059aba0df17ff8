//! Passwords: argon2id. Each hash takes 19 MiB and a core, so few run at the same time, and clients take
//! turns.

use crate::domain::account::PasswordHash;
use crate::domain::secret::Secret;
use crate::http::error::ApiError;
use crate::http::request::values::SecretText;
use crate::http::shared_threads::SharedThreads;
use crate::http::shares::ShareOwner;
use crate::ports::Entropy;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

/// The shortest, characters.
const SHORTEST_CHARS: usize = 8;
/// The longest, bytes.
const LONGEST_BYTES: usize = 1_024;
/// Memory in KiB, passes and lanes: OWASP's first choice for argon2id.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// A hash that no password fits: a login to a missing account takes as long as any other.
const NO_PASSWORD_HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Hashes and checks passwords.
pub(crate) struct Passwords {
    threads: Arc<SharedThreads>,
}

/// A new password of allowed length. Errors do not repeat it.
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct NewPassword(
    #[cfg_attr(test, schemars(with = "String", length(min = SHORTEST_CHARS, max = LONGEST_BYTES)))]
    pub(crate) Secret,
);

impl<'de> Deserialize<'de> for NewPassword {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let SecretText(password) = SecretText::deserialize(deserializer)?;
        let text = password.reveal();
        if text.chars().count() < SHORTEST_CHARS || text.len() > LONGEST_BYTES {
            return Err(D::Error::custom(format_args!(
                "must have at least {SHORTEST_CHARS} characters and at most {LONGEST_BYTES} bytes"
            )));
        }
        Ok(Self(password))
    }
}

impl Passwords {
    pub(crate) fn new() -> Self {
        Self { threads: SharedThreads::for_passwords() }
    }

    /// Hashes a new password with a fresh salt.
    pub(crate) async fn hash(
        &self,
        owner: Option<ShareOwner>,
        password: Secret,
        entropy: &dyn Entropy,
    ) -> Result<PasswordHash, ApiError> {
        let salt = entropy.random();
        self.threads.of(owner).run(move || hash_password(&password, salt)).await?
    }

    /// Whether the password is right. Without a hash it takes as long as with one.
    pub(crate) async fn is_right(
        &self,
        owner: Option<ShareOwner>,
        password: Secret,
        hash: Option<PasswordHash>,
    ) -> Result<bool, ApiError> {
        self.threads.of(owner).run(move || matches(password.reveal(), hash.as_ref())).await
    }
}

/// Hashes on this thread. It takes about 20 ms.
pub(crate) fn hash_password(password: &Secret, salt: u128) -> Result<PasswordHash, ApiError> {
    let (memory, passes, lanes) = COST;
    let computed = Params::new(memory, passes, lanes, None).map_err(Into::into).and_then(|params| {
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon.hash_password_with_salt(password.reveal().as_bytes(), &salt.to_be_bytes())
    });
    computed.map(|hash| PasswordHash::new(hash.to_string())).map_err(|error: argon2::password_hash::Error| {
        tracing::error!(%error, "a password cannot be hashed");
        ApiError::Internal
    })
}

fn matches(password: &str, hash: Option<&PasswordHash>) -> bool {
    let phc = hash.map_or(NO_PASSWORD_HASH, PasswordHash::reveal);
    let fits = Argon2::default().verify_password(password.as_bytes(), phc).is_ok();
    fits && hash.is_some() && password.len() <= LONGEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_password_is_stored_as_salted_argon2id() {
        let hash = hash_password(&Secret::from("correct horse".to_owned()), 7).expect("hashed");
        assert!(hash.reveal().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.reveal());
        assert!(matches("correct horse", Some(&hash)));
        assert!(!matches("correct horsf", Some(&hash)) && !matches("", Some(&hash)));
        assert_ne!(hash_password(&Secret::from("correct horse".to_owned()), 8).expect("hashed"), hash);
    }

    #[test]
    fn p9_a_missing_account_costs_the_same_hash_and_never_matches() {
        let parsed = argon2::password_hash::phc::PasswordHash::new(NO_PASSWORD_HASH).expect("a PHC string");
        let cost = Params::try_from(&parsed).expect("its cost");
        assert_eq!((cost.m_cost(), cost.t_cost(), cost.p_cost()), COST);
        assert_eq!(parsed.hash.expect("a hash").as_bytes().len(), Params::DEFAULT_OUTPUT_LEN);
        assert!(!matches("", None) && !matches("whatever", Some(&PasswordHash::new("no PHC".into()))));
    }

    #[test]
    fn passwords_have_a_minimum_and_a_maximum_length() {
        let read = |text: &str| serde_json::from_value::<NewPassword>(text.into());
        for bad in ["", "seven77", &"x".repeat(1_025)] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read("eight888").is_ok() && read(&"é".repeat(8)).is_ok());
    }
}
