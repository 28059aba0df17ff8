//! `POST /api/auth/register`. [`RegistrationGate::required_invite`] decides who may register; the store asks
//! it again in the transaction that makes the account.

use super::{BODY_BOUNDS, NO_ACCOUNTS, credentials, token};
use crate::domain::account::{AuthMode, Email, NewUsername, Role};
use crate::http::auth::api_key::{self, SecretKind};
use crate::http::auth::password::NewPassword;
use crate::http::context::ServerContext;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::SecretText;
use crate::http::response::HandlerResult;
use crate::ports::{NewAccount, RegistrationGate};
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
        return Err(NO_ACCOUNTS);
    }
    let RegisterRequest { username, password, email, invite } =
        json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    let (NewUsername(username), password) = credentials(username, password)?;
    let invite = invite.and_then(|code| api_key::digest_of(SecretKind::Invite, code.0.reveal().trim()));
    let admission = RegistrationGate::Public { registration: context.app.auth.registration, invite };
    // A hopeless one fails before a password is hashed.
    admission.required_invite(!context.has_accounts().await?)?;
    let password =
        context.auth.passwords.hash(request.owner, password.0, context.app.entropy.as_ref()).await?;
    let created_at_ms = context.app.clock.now_ms();
    let new = NewAccount { username, email, password, role: Role::User, admission, created_at_ms };
    let account = context.app.users.register(new).await?;
    token::session_response(context, &request.headers, account)
}
