//! A session that has been opened: `{token, user}`, and the cookie beside it.

use crate::domain::account::{Account, AuthMode};
use crate::http::api::account_view::AccountView;
use crate::http::api::envelope;
use crate::http::auth::{Purpose, cookie};
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::reply::{self, Reply};
use hyper::HeaderMap;
use hyper::header::SET_COOKIE;
use serde::Serialize;

#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Session"))]
#[derive(Serialize)]
pub(crate) struct View {
    token: String,
    user: AccountView,
}

/// The answer to whoever has shown to be this account's owner.
pub(super) fn opened(door: &Door, headers: &HeaderMap, account: Account) -> Result<Reply, Error> {
    let token = token(door, &account)?;
    let user = AccountView::of(account);
    let mut reply = envelope::data(View { token: token.clone(), user });
    give_cookie(door, headers, &mut reply, &token);
    Ok(reply)
}

/// What the owner shows from now on.
pub(super) fn token(door: &Door, account: &Account) -> Result<String, Error> {
    let purpose = match door.room.auth.mode {
        AuthMode::Single => Purpose::Single,
        AuthMode::Multi => Purpose::Session,
    };
    door.auth.sessions.sign(account, purpose, door.room.clock.now_ms(), door.room.limits.session_s)
}

/// The same for a browser to keep. Single mode asks for none.
pub(super) fn give_cookie(door: &Door, headers: &HeaderMap, reply: &mut Reply, token: &str) {
    if door.room.auth.mode == AuthMode::Multi {
        reply::set(reply, SET_COOKIE, &cookie::hand_over(token, door.room.limits.session_s, headers));
    }
}
