//! A session that has been opened: `{token, user}`, and the cookie beside it.

use crate::domain::account::{Account, AuthMode};
use crate::http::api::account::AccountResponse;
use crate::http::api::envelope;
use crate::http::auth::{TokenPurpose, cookie};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::response::{self, HttpResponse};
use hyper::HeaderMap;
use hyper::header::SET_COOKIE;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Session"))]
#[derive(Serialize)]
pub(crate) struct SessionResponse {
    token: String,
    user: AccountResponse,
}

/// The answer to whoever has shown to be this account's owner.
pub(crate) fn opened(
    context: &ServerContext,
    headers: &HeaderMap,
    account: Account,
) -> Result<HttpResponse, ApiError> {
    let token = token(context, &account)?;
    let user = AccountResponse::of(account);
    let mut reply = envelope::data(SessionResponse { token: token.clone(), user });
    give_cookie(context, headers, &mut reply, &token);
    Ok(reply)
}

/// What the owner shows from now on.
pub(crate) fn token(context: &ServerContext, account: &Account) -> Result<String, ApiError> {
    let purpose = match context.app.auth.mode {
        AuthMode::Single => TokenPurpose::Single,
        AuthMode::Multi => TokenPurpose::Session,
    };
    context.auth.sessions.sign(account, purpose, context.app.clock.now_ms(), context.app.limits.session_s)
}

/// The same for a browser to keep. Single mode asks for none.
pub(crate) fn give_cookie(
    context: &ServerContext,
    headers: &HeaderMap,
    reply: &mut HttpResponse,
    token: &str,
) {
    if context.app.auth.mode == AuthMode::Multi {
        response::set(reply, SET_COOKIE, &cookie::hand_over(token, context.app.limits.session_s, headers));
    }
}
