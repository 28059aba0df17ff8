//! Passwords: argon2id. Owns what a password must be, and how many are computed at once, since each takes 19 MiB and a core;
//! refuses to keep or to tell one.

use crate::domain::account::PasswordHash;
use crate::domain::secret::Secret;
use crate::http::blocking::blocking;
use crate::http::error::ApiError;
use crate::ports::Entropy;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The shortest, characters.
const SHORTEST_CHARS: usize = 8;
/// The longest, bytes.
const LONGEST_BYTES: usize = 1_024;
/// Computed at once.
const AT_ONCE: usize = 2;
/// Waiting for their turn, those at work included; more are sent away.
const IN_LINE: usize = 32;
/// How much memory, passes and lanes one takes: OWASP's first choice for argon2id. KiB, passes, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// Nobody's: whoever names an account that is not there waits as long as for one that is.
const NOBODYS: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm9ib2R5J3Mgc2FsdC4uLg$\
    AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Computes and checks.
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
    line: Arc<Semaphore>,
}

/// A turn and a place in line; whoever has both computes.
type HashingPermit = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// What may become a password.
pub(crate) fn fit(name: &str, password: String) -> Result<Secret, ApiError> {
    if password.chars().count() < SHORTEST_CHARS || password.len() > LONGEST_BYTES {
        let wanted = format!(
            "'{name}' must have at least {SHORTEST_CHARS} characters and at most {LONGEST_BYTES} bytes"
        );
        return Err(ApiError::value(name, wanted));
    }
    Ok(password.into())
}

impl Passwords {
    pub(crate) fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(AT_ONCE)), line: Arc::new(Semaphore::new(IN_LINE)) }
    }

    /// Hashes a new password with a fresh salt.
    pub(crate) async fn hash(
        &self,
        password: Secret,
        entropy: &dyn Entropy,
    ) -> Result<PasswordHash, ApiError> {
        let salt = entropy.random();
        self.compute(move || hash_password(&password, salt)).await?
    }

    /// Whether it is the one. Takes as long without an account, or without a password of its own, as with it.
    pub(crate) async fn is_right(
        &self,
        password: Secret,
        hash: Option<PasswordHash>,
    ) -> Result<bool, ApiError> {
        self.compute(move || matches(password.reveal(), hash.as_ref())).await
    }

    async fn compute<T, F>(&self, act: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let turn = self.turn().await?;
        let computing = blocking(move || {
            let result = act();
            drop(turn); // not earlier: a client that leaves does not stop the work
            result
        });
        computing.await
    }

    async fn turn(&self) -> Result<HashingPermit, ApiError> {
        let Ok(place) = Arc::clone(&self.line).try_acquire_owned() else {
            let message = "too many people are logging in, try again in a moment".to_owned();
            return Err(ApiError::TooMany { message, retry_after_s: 1 });
        };
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| ApiError::Internal)?;
        Ok((turn, place))
    }
}

/// The same, here and now: for whoever may be busy for a while.
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
    let phc = hash.map_or(NOBODYS, PasswordHash::reveal);
    let fits = Argon2::default().verify_password(password.as_bytes(), phc).is_ok();
    fits && hash.is_some() && password.len() <= LONGEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_a_password_is_kept_as_argon2id_with_salt() {
        let hash = hash_password(&Secret::from("correct horse".to_owned()), 7).expect("hashed");
        assert!(hash.reveal().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.reveal());
        assert!(matches("correct horse", Some(&hash)));
        assert!(!matches("correct horsf", Some(&hash)) && !matches("", Some(&hash)));
        assert_ne!(hash_password(&Secret::from("correct horse".to_owned()), 8).expect("hashed"), hash);
    }

    #[test]
    fn p9_nobodys_hash_costs_what_everybodys_does_and_fits_nothing() {
        let parsed = argon2::password_hash::phc::PasswordHash::new(NOBODYS).expect("a PHC string");
        let cost = Params::try_from(&parsed).expect("its cost");
        assert_eq!((cost.m_cost(), cost.t_cost(), cost.p_cost()), COST);
        assert_eq!(parsed.hash.expect("a hash").as_bytes().len(), Params::DEFAULT_OUTPUT_LEN);
        assert!(!matches("", None) && !matches("whatever", Some(&PasswordHash::new("no PHC".into()))));
    }

    #[test]
    fn passwords_have_a_length() {
        for bad in ["", "seven77", &"x".repeat(1_025)] {
            assert!(fit("password", bad.to_owned()).is_err(), "{bad}");
        }
        assert!(fit("password", "eight888".into()).is_ok() && fit("password", "é".repeat(8)).is_ok());
    }

    #[tokio::test]
    async fn p8_a_crowd_is_sent_away() {
        let passwords = Passwords::new();
        let mut turns = Vec::new();
        for _ in 0..AT_ONCE {
            turns.push(passwords.turn().await.expect("a turn"));
        }
        let places: Vec<_> = (AT_ONCE..IN_LINE)
            .map(|_| Arc::clone(&passwords.line).try_acquire_owned().expect("a place"))
            .collect();
        assert!(matches!(passwords.turn().await, Err(ApiError::TooMany { .. })));
        drop((turns, places));
        assert!(passwords.turn().await.is_ok());
    }
}
