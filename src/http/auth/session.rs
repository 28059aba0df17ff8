//! Signed tokens (JWT, HS256 only). Each names its purpose and is valid for no other.

use super::ticket::TicketOpener;
use crate::domain::account::Account;
use crate::domain::id::UserId;
use crate::http::error::ApiError;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The longest token, bytes.
const LONGEST_BYTES: usize = 2 * 1024;

/// Lifetime of a ticket, seconds.
pub(crate) const TICKET_S: u64 = 30;

/// What a token is valid for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TokenPurpose {
    /// All routes of its account.
    Session,
    /// Opening a stream. It stands in a URL, which proxies may log.
    Ticket,
    /// Nothing. Single mode needs no token, and one from then must be invalid once there are accounts.
    Single,
}

/// The signed claims. The role is for the front end only; the account's own role counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionClaims {
    pub(crate) user_id: UserId,
    pub(crate) username: String,
    pub(crate) role: crate::domain::account::Role,
    /// The account's generation: a new password invalidates older tokens.
    #[serde(rename = "gen")]
    pub(crate) generation: u32,
    /// Unix seconds.
    pub(crate) iat: u64,
    /// Unix seconds; the token is invalid from then on.
    pub(crate) exp: u64,
    #[serde(rename = "use")]
    pub(crate) purpose: TokenPurpose,
    /// What a ticket was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) opener: Option<TicketOpener>,
}

impl SessionClaims {
    /// When the token expires, unix milliseconds.
    pub(crate) fn until_ms(&self) -> u64 {
        self.exp.saturating_mul(1_000)
    }
}

/// Signs and verifies tokens.
pub(crate) struct SessionSigner {
    signing: EncodingKey,
    checking: DecodingKey,
    rules: Validation,
}

impl SessionSigner {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut rules = Validation::new(Algorithm::HS256);
        // The crate would use the system clock; `read` uses ours.
        rules.validate_exp = false;
        rules.validate_aud = false;
        rules.required_spec_claims = HashSet::new();
        Self { signing: EncodingKey::from_secret(key), checking: DecodingKey::from_secret(key), rules }
    }

    /// A ticket for a caller with this credential.
    pub(crate) fn sign_ticket(
        &self,
        account: &Account,
        opener: TicketOpener,
        now_ms: u64,
    ) -> Result<String, ApiError> {
        let claims = claims(account, TokenPurpose::Ticket, now_ms, TICKET_S);
        self.encode(&SessionClaims { opener: Some(opener), ..claims })
    }

    /// A token that is valid for `lasts_s` seconds.
    pub(crate) fn sign(
        &self,
        account: &Account,
        purpose: TokenPurpose,
        now_ms: u64,
        lasts_s: u64,
    ) -> Result<String, ApiError> {
        self.encode(&claims(account, purpose, now_ms, lasts_s))
    }

    fn encode(&self, claims: &SessionClaims) -> Result<String, ApiError> {
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &self.signing).map_err(|error| {
            tracing::error!(%error, "a session cannot be signed");
            ApiError::Internal
        })
    }

    /// The claims of a valid token of this purpose. The signature is compared in constant time.
    pub(crate) fn read(&self, token: &str, purpose: TokenPurpose, now_ms: u64) -> Option<SessionClaims> {
        if token.len() > LONGEST_BYTES {
            return None;
        }
        let claims = jsonwebtoken::decode::<SessionClaims>(token, &self.checking, &self.rules).ok()?.claims;
        (claims.purpose == purpose && now_ms / 1_000 < claims.exp).then_some(claims)
    }
}

fn claims(account: &Account, purpose: TokenPurpose, now_ms: u64, lasts_s: u64) -> SessionClaims {
    let iat = now_ms / 1_000;
    SessionClaims {
        user_id: account.id,
        username: account.username.as_str().to_owned(),
        role: account.role,
        generation: account.generation,
        iat,
        exp: iat.saturating_add(lasts_s),
        purpose,
        opener: None,
    }
}
