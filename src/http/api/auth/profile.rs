//! `GET` and `PATCH /api/auth/profile`: the own account.

use super::{BODY_BOUNDS, token};
use crate::domain::account::{Account, Email, TokenScopes};
use crate::domain::secret::Secret;
use crate::http::api::account::AccountResponse;
use crate::http::api::envelope;
use crate::http::auth::password::NewPassword;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::{PlainText, Removable, SecretText, removable};
use crate::http::response::HandlerResult;
use crate::ports::AccountChange;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

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

/// `null` removes the email or the avatar.
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileRequest {
    #[serde(default, deserialize_with = "removable")]
    email: Removable<Email>,
    #[serde(default, deserialize_with = "removable")]
    avatar: Removable<PlainText<0, 512>>,
    password: Option<NewPassword>,
    current_password: Option<SecretText>,
}

pub(crate) fn show(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    let account = context.app.users.account(request.user)?.ok_or(GONE)?;
    Ok(envelope::data(ProfileResponse { user: AccountResponse::of(account), token: None }))
}

/// A new password needs the current one, if there is one.
pub(crate) async fn change(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let body: ProfileRequest = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    let avatar = body.avatar.map(|avatar| avatar.map(|avatar| avatar.0));
    let mut change = AccountChange { email: body.email, avatar, ..AccountChange::default() };
    if let Some(password) = body.password {
        confirm(context, &request, body.current_password.map(|current| current.0)).await?;
        change.password = Some(context.auth.passwords.hash(password.0, context.app.entropy.as_ref()).await?);
    }
    let opens = change.password.is_some();
    let account = context.app.users.change_account(request.user, change).await?.ok_or(GONE)?;
    answer(context, &request, account, opens)
}

fn answer(context: &ServerContext, request: &RequestContext, account: Account, opens: bool) -> HandlerResult {
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
    let now_ms = context.app.clock.monotonic_ms();
    let attempt = context.auth.throttle.attempt(name, request.address, now_ms)?;
    let is_right = context.auth.passwords.is_right(current, Some(hash)).await?;
    attempt.checked(is_right);
    if is_right { Ok(()) } else { Err(ApiError::Forbidden("'current_password' is wrong")) }
}
