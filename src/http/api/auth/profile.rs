//! `GET` and `PATCH /api/auth/profile`: the own account.

use super::register::email_of;
use super::{body, token};
use crate::domain::account::{Account, TokenScopes};
use crate::domain::secret::Secret;
use crate::http::api::account::AccountResponse;
use crate::http::api::envelope;
use crate::http::auth::password;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::fields::ObjectFields;
use crate::http::request::query::QueryString;
use crate::http::response::HttpResponse;
use crate::ports::AccountChange;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

pub(crate) const KNOWN: &[&str] = &["email", "avatar", "password", "current_password"];
/// The longest URL of an avatar, characters.
pub(crate) const AVATAR_CHARS: usize = 512;
const GONE: ApiError = ApiError::NotFound("account");

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Profile"))]
#[derive(Serialize)]
pub(crate) struct ProfileResponse {
    #[serde(flatten)]
    user: AccountResponse,
    /// A new session after a new password, which ends all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

pub(crate) struct ProfileRequest {
    change: AccountChange,
    password: Option<Secret>,
    current: Option<Secret>,
}

pub(crate) fn show(context: &ServerContext, request: &RequestContext) -> Result<HttpResponse, ApiError> {
    QueryString::parse(request.query.as_deref(), &[])?;
    let account = context.app.users.account(request.user)?.ok_or(GONE)?;
    Ok(envelope::data(ProfileResponse { user: AccountResponse::of(account), token: None }))
}

/// `null` removes the email or the avatar. A new password needs the current one, if there is one.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: &RequestContext,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    let ProfileRequest { mut change, password, current } = read(body::read(context, request, body).await?)?;
    if let Some(password) = password {
        confirm(context, request, current).await?;
        change.password = Some(context.auth.passwords.hash(password, context.app.entropy.as_ref()).await?);
    }
    let opens = change.password.is_some();
    let account = context.app.users.change_account(request.user, change).await?.ok_or(GONE)?;
    answer(context, request, account, opens)
}

pub(crate) fn read(map: Map<String, Value>) -> Result<ProfileRequest, ApiError> {
    let is_null = |map: &Map<String, Value>, name| map.get(name).is_some_and(Value::is_null);
    let (no_email, no_avatar) = (is_null(&map, "email"), is_null(&map, "avatar"));
    let mut fields = ObjectFields::new(map, KNOWN)?;
    let email = fields.text("email")?.map(email_of).transpose()?;
    let avatar = fields.text("avatar")?.map(avatar_of).transpose()?;
    let password = body::secret(&mut fields, "password")?;
    let password = password.map(|password| password::check_length("password", password)).transpose()?;
    let current = body::secret(&mut fields, "current_password")?.map(Secret::from);
    let change = AccountChange {
        email: if no_email { Some(None) } else { email.map(Some) },
        avatar: if no_avatar { Some(None) } else { avatar.map(Some) },
        ..AccountChange::default()
    };
    Ok(ProfileRequest { change, password, current })
}

fn answer(
    context: &ServerContext,
    request: &RequestContext,
    account: Account,
    opens: bool,
) -> Result<HttpResponse, ApiError> {
    if !opens {
        return Ok(envelope::data(ProfileResponse { user: AccountResponse::of(account), token: None }));
    }
    let token = token::token(context, &account)?;
    let mut response =
        envelope::data(ProfileResponse { user: AccountResponse::of(account), token: Some(token.clone()) });
    token::set_cookie(context, &request.headers, &mut response, &token);
    Ok(response)
}

/// Checks the current password, so that an open session is not enough. Wrong ones count as failed logins.
async fn confirm(
    context: &ServerContext,
    request: &RequestContext,
    current: Option<Secret>,
) -> Result<(), ApiError> {
    let account = context.app.users.account(request.user)?.ok_or(GONE)?;
    let Some(hash) = account.password else {
        let is_whole = request.caller.scopes == TokenScopes::ALL;
        let refused = ApiError::Forbidden("the API key lacks the scopes for setting the first password");
        return if is_whole { Ok(()) } else { Err(refused) };
    };
    let Some(current) = current else {
        return Err(ApiError::value(
            "current_password",
            "'current_password' is missing: a new password needs it",
        ));
    };
    let name = account.username.as_str();
    context.auth.throttle.attempt(name, request.address, context.app.clock.monotonic_ms())?;
    if !context.auth.passwords.is_right(current, Some(hash)).await? {
        return Err(ApiError::Forbidden("'current_password' is wrong"));
    }
    context.auth.throttle.succeeded(name, request.address);
    Ok(())
}

fn avatar_of(text: String) -> Result<String, ApiError> {
    if text.chars().count() > AVATAR_CHARS || text.chars().any(char::is_control) {
        let wanted =
            format!("'avatar' must be at most {AVATAR_CHARS} characters, none of them a control character");
        return Err(ApiError::value("avatar", wanted));
    }
    Ok(text)
}
