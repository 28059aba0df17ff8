//! The set-up invite, with which the first account of a server is made. Its code is derived from the session
//! key, which all nodes of a store share, and from the time of the invite: each of them prints the one in
//! force at its start, although the store holds the digest only.

use super::api_key::{GeneratedSecret, SecretKind, derive};
use crate::domain::secret::Secret;
use crate::http::api::envelope::date;
use crate::ports::{NewInvite, PendingInvite};
use serde::Serialize;

/// How long the invite is valid, milliseconds.
const LIFE_MS: u64 = 24 * 3_600 * 1_000;

/// A new invite and its code.
pub(crate) fn generate_setup_invite(session_key: &[u8], now_ms: u64) -> (NewInvite, Secret) {
    // No session is signed over such a text: theirs have no spaces.
    let text = format!("set-up invite of {now_ms}");
    let GeneratedSecret { secret, digest, .. } = derive(SecretKind::Invite, session_key, &text);
    let expires_at_ms = now_ms.saturating_add(LIFE_MS);
    (NewInvite { digest, created_at_ms: now_ms, expires_at_ms, created_by: None }, secret)
}

/// The code of a stored invite; `None` if another session key made it.
pub(crate) fn setup_code(session_key: &[u8], invite: &PendingInvite) -> Option<Secret> {
    let (made, secret) = generate_setup_invite(session_key, invite.created_at_ms?);
    (made.id() == invite.id).then_some(secret)
}

/// The set-up invite as the operator gets it.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "SetupInvite"))]
#[derive(Serialize)]
pub struct SetupInviteResponse {
    /// The code: `invite` of `POST /api/auth/register`.
    pub code: String,
    /// Opens the set-up page of the console; `null` if the server does not know its address or serves none.
    pub link: Option<String>,
    /// When the code expires.
    pub expires_at: String,
}

impl SetupInviteResponse {
    /// The code with the console's address, which ends with a slash.
    pub(crate) fn new(code: &Secret, console_url: Option<&str>, expires_at_ms: u64) -> Self {
        let code = code.reveal().to_owned();
        // The part behind '#' is not sent to servers, so no log has it.
        let link = console_url.map(|url| format!("{url}#/setup?invite={code}"));
        Self { code, link, expires_at: date(expires_at_ms) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_the_code_of_a_stored_invite_is_found_with_its_key_only() {
        let (invite, code) = generate_setup_invite(&[7; 32], 5_000);
        let found = setup_code(&[7; 32], &invite.pending()).expect("the code");
        assert_eq!(found.reveal(), code.reveal());
        assert!(setup_code(&[8; 32], &invite.pending()).is_none());
        let (later, other) = generate_setup_invite(&[7; 32], 5_001);
        assert!(later.digest != invite.digest && other.reveal() != code.reveal());
        assert_eq!(invite.expires_at_ms, 5_000 + LIFE_MS);
    }
}
