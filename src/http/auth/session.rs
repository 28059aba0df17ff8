//! Signed proofs of who somebody is: JWT, HS256 and nothing else. Owns what they claim, how long, and for what; refuses to say
//! why one does not hold.

use crate::domain::account::Account;
use crate::domain::id::UserId;
use crate::http::error::ApiError;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// None of ours is longer, bytes.
const LONGEST_BYTES: usize = 2 * 1024;

/// How long a ticket opens a stream, seconds.
pub(crate) const TICKET_S: u64 = 30;

/// What a proof is good for. One that is for something else does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenPurpose {
    /// Everything that its account may do.
    Session,
    /// Opening a stream, in an address where it may be logged by a proxy.
    Ticket,
    /// Nothing: single mode asks for no proof, and one that was given out then must not hold once there are accounts.
    Single,
}

/// What is signed. The role is the front end's to show; what counts is the account's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionClaims {
    pub(crate) user_id: UserId,
    pub(crate) username: String,
    pub(crate) role: crate::domain::account::Role,
    /// The account's generation: a change of the password ends what was signed before.
    #[serde(rename = "gen")]
    pub(crate) generation: u32,
    /// Unix seconds.
    pub(crate) iat: u64,
    /// Unix seconds; from then on it does not hold.
    pub(crate) exp: u64,
    #[serde(rename = "use")]
    pub(crate) purpose: TokenPurpose,
}

/// Signs and reads proofs.
pub(crate) struct SessionSigner {
    signing: EncodingKey,
    checking: DecodingKey,
    rules: Validation,
}

impl SessionSigner {
    /// With this secret.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut rules = Validation::new(Algorithm::HS256);
        // The crate would ask the system's clock; `read` asks ours.
        rules.validate_exp = false;
        rules.validate_aud = false;
        rules.required_spec_claims = HashSet::new();
        Self { signing: EncodingKey::from_secret(key), checking: DecodingKey::from_secret(key), rules }
    }

    /// A proof that holds for so long from now on.
    pub(crate) fn sign(
        &self,
        account: &Account,
        purpose: TokenPurpose,
        now_ms: u64,
        lasts_s: u64,
    ) -> Result<String, ApiError> {
        let iat = now_ms / 1_000;
        let claims = SessionClaims {
            user_id: account.id,
            username: account.username.as_str().to_owned(),
            role: account.role,
            generation: account.generation,
            iat,
            exp: iat.saturating_add(lasts_s),
            purpose,
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing).map_err(|error| {
            tracing::error!(%error, "a session cannot be signed");
            ApiError::Internal
        })
    }

    /// What the proof claims, if it is ours, for this, and not over. The signature is compared in constant time.
    pub(crate) fn read(&self, token: &str, purpose: TokenPurpose, now_ms: u64) -> Option<SessionClaims> {
        if token.len() > LONGEST_BYTES {
            return None;
        }
        let claims = jsonwebtoken::decode::<SessionClaims>(token, &self.checking, &self.rules).ok()?.claims;
        (claims.purpose == purpose && now_ms / 1_000 < claims.exp).then_some(claims)
    }
}
