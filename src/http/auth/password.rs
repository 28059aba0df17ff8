//! Passwords: argon2id. Owns what a password must be and how it is hashed; refuses to keep or to tell one.

use crate::domain::account::PasswordHash;
use crate::domain::secret::Secret;
use crate::http::door::Door;
use crate::http::error::Error;
use argon2::password_hash::PasswordHasher;
use argon2::{Algorithm, Argon2, Params, Version};

/// The shortest, characters.
const SHORTEST_CHARS: usize = 8;
/// The longest, bytes.
const LONGEST_BYTES: usize = 1_024;
/// How much memory, passes and lanes one takes: OWASP's first choice for argon2id. KiB, passes, lanes.
const COST: (u32, u32, u32) = (19_456, 2, 1);

/// What may become a password.
pub(crate) fn fit(name: &str, password: String) -> Result<Secret, Error> {
    if password.chars().count() < SHORTEST_CHARS || password.len() > LONGEST_BYTES {
        let wanted = format!(
            "'{name}' must have at least {SHORTEST_CHARS} characters and at most {LONGEST_BYTES} bytes"
        );
        return Err(Error::value(name, wanted));
    }
    Ok(password.into())
}

/// What the password is checked against from now on, computed on a thread that may be busy for a while.
pub(crate) async fn hash(door: &Door, password: Secret) -> Result<PasswordHash, Error> {
    let salt = door.room.entropy.random();
    let computing = tokio::task::spawn_blocking(move || hash_password(&password, salt));
    computing.await.map_err(|_| Error::Internal)?
}

/// The same, here and now.
pub(crate) fn hash_password(password: &Secret, salt: u128) -> Result<PasswordHash, Error> {
    let (memory, passes, lanes) = COST;
    let computed = Params::new(memory, passes, lanes, None).map_err(Into::into).and_then(|params| {
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        argon.hash_password_with_salt(password.reveal().as_bytes(), &salt.to_be_bytes())
    });
    computed.map(|hash| PasswordHash::new(hash.to_string())).map_err(|error: argon2::password_hash::Error| {
        tracing::error!(%error, "a password cannot be hashed");
        Error::Internal
    })
}
