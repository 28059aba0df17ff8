//! The answer to a login: `{token, user}` and the session cookie.

use crate::domain::account::{Account, AuthMode};
use crate::http::api::account::AccountResponse;
use crate::http::api::envelope;
use crate::http::auth::{TokenPurpose, cookie};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::{self, HandlerResult, HttpResponse};
use hyper::HeaderMap;
use hyper::header::SET_COOKIE;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Session"))]
#[derive(Serialize)]
pub(crate) struct SessionResponse {
    token: String,
    user: AccountResponse,
}

/// A new session for the owner of the account.
pub(crate) fn session_response(
    context: &ServerContext,
    headers: &HeaderMap,
    account: Account,
) -> HandlerResult {
    let token = token(context, &account)?;
    let user = AccountResponse::of(account);
    let mut response = envelope::data(SessionResponse { token: token.clone(), user });
    set_cookie(context, headers, &mut response, &token);
    Ok(response)
}

/// The token of the session.
pub(crate) fn token(context: &ServerContext, account: &Account) -> Result<String, ApiError> {
    let purpose = match context.app.auth.mode {
        AuthMode::Single => TokenPurpose::Single,
        AuthMode::Multi => TokenPurpose::Session,
    };
    context.auth.sessions.sign(account, purpose, context.app.clock.now_ms(), context.app.limits.session_s)
}

/// The cookie with the token. Single mode needs none.
pub(crate) fn set_cookie(
    context: &ServerContext,
    headers: &HeaderMap,
    response: &mut HttpResponse,
    token: &str,
) {
    if context.app.auth.mode == AuthMode::Multi {
        response::set(
            response,
            SET_COOKIE,
            &cookie::set_cookie_value(token, context.app.limits.session_s, headers),
        );
    }
}
