//! The invite for the first administrator of a server that strangers reach: without it the first stranger
//! to register would be the administrator.

use crate::domain::secret::Secret;
use crate::engine::EnginePorts;
use crate::http::BoundAddress;
use crate::http::api_key::{self, SecretKind};
use crate::ports::{NewInvite, StoreError, Users};
use std::fmt;

/// How long the invite is valid; each start makes a new one, milliseconds.
const LIFE_MS: u64 = 24 * 3_600 * 1_000;

/// A code that is shown once, at the start.
pub struct FirstInvite(Secret);

impl FirstInvite {
    /// How to make the first account, for a server at this address.
    pub fn instructions(&self, bound: &impl fmt::Display) -> String {
        format!(
            "There is no account yet. The first one is an administrator and needs this invite, which is valid for \
             24 hours:\n  curl {bound}/api/auth/register -H 'Content-Type: application/json' \\\n    -d \
             '{{\"username\":\"NAME\",\"password\":\"PASSWORD\",\"invite\":\"{}\"}}'\nOr on this machine: nanoclaw user \
             add NAME",
            self.0.reveal()
        )
    }
}

/// Stores an invite if strangers reach the server and nobody has an account.
pub(super) fn of(
    users: &dyn Users,
    ports: &EnginePorts,
    bound: &BoundAddress,
) -> Result<Option<FirstInvite>, StoreError> {
    if !bound.is_public() || !users.has_no_accounts()? {
        return Ok(None);
    }
    let invite = api_key::generate(SecretKind::Invite, ports.entropy.as_ref());
    let created_at_ms = ports.clock.now_ms();
    let expires_at_ms = created_at_ms.saturating_add(LIFE_MS);
    let new = NewInvite { digest: invite.digest, created_at_ms, expires_at_ms, created_by: None };
    match users.store_invite(new).wait() {
        Err(error @ StoreError::Full) => {
            tracing::warn!(%error, "cannot store an invite for the first administrator");
            Ok(None)
        }
        stored => stored.map(|()| Some(FirstInvite(invite.secret))),
    }
}
