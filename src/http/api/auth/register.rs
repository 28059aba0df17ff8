//! `POST /api/auth/register`. The store decides who may register, in the transaction that makes the
//! account.

use super::{body, token};
use crate::domain::account::{AuthMode, Email, Registration, Role, Username};
use crate::domain::secret::Secret;
use crate::http::auth::api_key::{self, SecretKind};
use crate::http::auth::password;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::ObjectFields;
use crate::http::response::HttpResponse;
use crate::ports::{AccountError, NewAccount, RegistrationGate};
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) const KNOWN: &[&str] = &["username", "password", "email", "invite"];

pub(crate) struct RegisterRequest {
    username: Username,
    password: Secret,
    email: Option<Email>,
    invite: Option<String>,
}

/// Makes an account and opens its first session.
pub(crate) async fn register(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    if context.app.auth.mode == AuthMode::Single {
        return Err(ApiError::Forbidden("there are no accounts: the server runs with auth_mode: single"));
    }
    let RegisterRequest { username, password, email, invite } =
        read(body::read(context, request, body).await?)?;
    let admission = admission(context, invite)?;
    let password = context.auth.passwords.hash(password, context.app.entropy.as_ref()).await?;
    let created_at_ms = context.app.clock.now_ms();
    let new = NewAccount { username, email, password, role: Role::User, admission, created_at_ms };
    let account = context.app.users.register(new).await?;
    token::session_response(context, &request.headers, account)
}

pub(crate) fn read(map: Map<String, Value>) -> Result<RegisterRequest, ApiError> {
    let mut fields = ObjectFields::new(map, KNOWN)?;
    let (username, password) = (fields.text("username")?, body::secret(&mut fields, "password")?);
    let (username, password) = body::both(("username", username), ("password", password))?;
    let password = password::check_length("password", password)?;
    let username = Username::try_from(username)
        .map_err(|rule| ApiError::value("username", format!("'username' {rule}")))?;
    let email = fields.text("email")?.map(email_of).transpose()?;
    Ok(RegisterRequest { username, password, email, invite: body::secret(&mut fields, "invite")? })
}

pub(crate) fn email_of(text: String) -> Result<Email, ApiError> {
    Email::try_from(text).map_err(|rule| ApiError::value("email", format!("'email' {rule}")))
}

/// How the registration is admitted. Hopeless ones fail here, before a password is hashed.
fn admission(context: &ServerContext, invite: Option<String>) -> Result<RegistrationGate, ApiError> {
    let invite = invite.and_then(|code| api_key::digest_of(SecretKind::Invite, code.trim()));
    let app = &context.app;
    let is_first = || app.users.has_no_accounts();
    match (app.auth.registration, invite) {
        (Registration::Open, _) => Ok(RegistrationGate::Open),
        (Registration::Closed, _) if is_first()? => Ok(RegistrationGate::FirstOnly),
        (Registration::Closed, _) => Err(AccountError::RegistrationClosed.into()),
        (Registration::Invite, None) if !is_first()? => Err(AccountError::NotInvited.into()),
        (Registration::Invite, invite) => Ok(RegistrationGate::Invited(invite)),
    }
}
