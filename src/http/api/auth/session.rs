//! `/api/auth/mode`, `login`, `logout` and `ticket`.
//!
//! A failed login gets the same text after the same time whether or not the account exists. Logout removes
//! the cookie only, unless it is asked to end all sessions: a token stays valid until it expires or the
//! password changes. A ticket opens event streams for 30 seconds, for an `EventSource` without cookies.

use super::{BODY_BOUNDS, credentials, token};
use crate::domain::account::{Account, AuthMode};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::http::api::envelope;
use crate::http::auth::{Caller, CallerProof, RouteAccess, TICKET_S, cookie};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::request::json;
use crate::http::request::values::SecretText;
use crate::http::response::{self, HandlerResult};
use crate::ports::AccountChange;
use hyper::Method;
use hyper::header::SET_COOKIE;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "AuthMode"))]
#[derive(Serialize)]
pub(crate) struct AuthModeResponse {
    mode: &'static str,
    /// Whether this request's credential is valid.
    authenticated: bool,
    /// Whether an account has a password. With `multi` and without one, `POST /api/auth/register` makes the
    /// administrator's with the set-up invite.
    has_accounts: bool,
}

/// `single` or `multi`, whether the caller is logged in, and whether anybody could be: a page asks this
/// before it asks for anything that would be a 401.
pub(crate) async fn mode(context: &Arc<ServerContext>, request: &RequestContext) -> HandlerResult {
    let authenticated = request.caller.proof != CallerProof::Nobody;
    let has_accounts = context.has_accounts().await?;
    let mode = context.app.auth.mode.as_str();
    Ok(envelope::data(AuthModeResponse { mode, authenticated, has_accounts }))
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoginRequest {
    username: Option<String>,
    password: Option<SecretText>,
}

const WRONG: ApiError = ApiError::Unauthorized("the username or the password is wrong");

/// Opens a session. In single mode every caller is the one user, whatever the body says.
pub(crate) async fn login(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    if context.app.auth.mode == AuthMode::Single {
        let account = context.app.users.account(UserId::SINGLE)?.ok_or(ApiError::Internal)?;
        return token::session_response(context, &request.headers, account);
    }
    let LoginRequest { username, password } = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    let (username, password) = credentials(username, password)?;
    let account = known(context, &request, &username, password.0).await?;
    if !account.is_active {
        return Err(ApiError::Forbidden("the account is disabled"));
    }
    let now_ms = context.app.clock.now_ms();
    let change = AccountChange { logged_in_at_ms: Some(now_ms), ..AccountChange::default() };
    let seen = context.app.users.change_account(account.id, change).await?;
    // The account may have changed while the password was checked.
    let is_same = |seen: &Account| seen.is_active && seen.generation == account.generation;
    let account = seen.filter(is_same).ok_or(WRONG)?;
    token::session_response(context, &request.headers, account)
}

/// The account with this name and password.
async fn known(
    context: &ServerContext,
    request: &RequestContext,
    username: &str,
    password: Secret,
) -> Result<Account, ApiError> {
    let auth = &context.auth;
    let attempt = auth.throttle.attempt(username, request.address)?;
    let account = context.app.users.account_named(username.trim())?;
    let hash = account.as_ref().and_then(|account| account.password.clone());
    let is_right = auth.passwords.is_right(request.owner, password, hash).await?;
    let account = account.filter(|_| is_right);
    attempt.checked(account.is_some());
    account.ok_or(WRONG)
}

#[cfg_attr(test, derive(schemars::JsonSchema))]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogoutRequest {
    everywhere: Option<bool>,
}

/// Removes the cookie. With `everywhere` all sessions of the account end; its API keys stay valid.
pub(crate) async fn logout(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    let LogoutRequest { everywhere } = json::read_up_to(context, &request, body, BODY_BOUNDS).await?;
    if everywhere == Some(true) {
        end_sessions(context, request.caller).await?;
    }
    let mut response = envelope::done("logged out");
    response::set(&mut response, SET_COOKIE, &cookie::clear_cookie_value(&request.headers));
    Ok(response)
}

const NOT_LOGGED_IN: ApiError =
    ApiError::Unauthorized("'everywhere' needs the session whose account it is for");

/// Ends all sessions of the caller's account. Single mode has none.
async fn end_sessions(context: &ServerContext, caller: Caller) -> Result<(), ApiError> {
    if caller.proof == CallerProof::Nobody {
        return Err(NOT_LOGGED_IN);
    }
    caller.may(&Method::POST, RouteAccess::User)?;
    if context.app.auth.mode == AuthMode::Multi {
        let change = AccountChange { ends_sessions: true, ..AccountChange::default() };
        context.app.users.change_account(caller.user, change).await?.ok_or(NOT_LOGGED_IN)?;
    }
    Ok(())
}

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Ticket"))]
#[derive(Serialize)]
pub(crate) struct TicketResponse {
    ticket: String,
    /// Seconds.
    expires_in: u64,
}

pub(crate) fn ticket(context: &ServerContext, request: &RequestContext) -> HandlerResult {
    if !request.caller.scopes.read {
        return Err(ApiError::Forbidden("the API key lacks the scope 'read'"));
    }
    let app = &context.app;
    let account = app.users.account(request.user)?.ok_or(ApiError::NotFound("account"))?;
    let ticket =
        context.auth.sessions.sign_ticket(&account, request.caller.as_opener(), app.clock.now_ms())?;
    Ok(envelope::data(TicketResponse { ticket, expires_in: TICKET_S }))
}
