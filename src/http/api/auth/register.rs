//! `POST /api/auth/register`. The store decides who may register, in the transaction that makes the
//! account.

use super::{BODY_BOUNDS, credentials, token};
use crate::domain::account::{AuthMode, Email, NewUsername, Registration, Role};
use crate::domain::secret::Secret;
use crate::http::auth::api_key::{self, SecretKind};
use crate::http::auth::password::NewPassword;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::SecretText;
use crate::http::response::HandlerResult;
use crate::ports::{AccountError, NewAccount, RegistrationGate};
use serde::Deserialize;
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegisterRequest {
    username: Option<NewUsername>,
    password: Option<NewPassword>,
    email: Option<Email>,
    invite: Option<SecretText>,
}

/// Makes an account and opens its first session.
pub(crate) async fn register(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    if context.app.auth.mode == AuthMode::Single {
        return Err(ApiError::Forbidden("there are no accounts: the server runs with auth_mode: single"));
    }
    let RegisterRequest { username, password, email, invite } =
        json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    let (NewUsername(username), password) = credentials(username, password)?;
    let admission = admission(context, invite.map(|invite| invite.0))?;
    let password = context.auth.passwords.hash(password.0, context.app.entropy.as_ref()).await?;
    let created_at_ms = context.app.clock.now_ms();
    let new = NewAccount { username, email, password, role: Role::User, admission, created_at_ms };
    let account = context.app.users.register(new).await?;
    token::session_response(context, &request.headers, account)
}

/// How the registration is admitted. Hopeless ones fail here, before a password is hashed.
fn admission(context: &ServerContext, invite: Option<Secret>) -> Result<RegistrationGate, ApiError> {
    let invite = invite.and_then(|code| api_key::digest_of(SecretKind::Invite, code.reveal().trim()));
    let app = &context.app;
    let is_first = || app.users.has_no_accounts();
    if app.auth.first_needs_invite && is_first()? {
        return match invite {
            Some(digest) => Ok(RegistrationGate::Setup(digest)),
            None => Err(AccountError::SetupInviteMissing.into()),
        };
    }
    match (app.auth.registration, invite) {
        (Registration::Open, _) => Ok(RegistrationGate::Open),
        (Registration::Closed, _) if is_first()? => Ok(RegistrationGate::FirstOnly),
        (Registration::Closed, _) => Err(AccountError::RegistrationClosed.into()),
        (Registration::Invite, None) if !is_first()? => Err(AccountError::NotInvited.into()),
        (Registration::Invite, invite) => Ok(RegistrationGate::Invited(invite)),
    }
}
