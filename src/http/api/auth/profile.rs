//! `GET` and `PATCH /api/auth/profile`: one's own account.

use super::register::email_of;
use super::{form, opened};
use crate::domain::account::{Account, TokenScopes};
use crate::domain::secret::Secret;
use crate::http::api::account_view::AccountView;
use crate::http::api::envelope;
use crate::http::arriving::Arriving;
use crate::http::auth::password;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::AccountChange;
use serde::Serialize;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What one may say of oneself.
pub(crate) const KNOWN: &[&str] = &["email", "avatar", "password", "current_password"];
/// The longest picture's address, characters.
pub(crate) const AVATAR_CHARS: usize = 512;
const GONE: Error = Error::NotFound("account");

/// What one sees of oneself.
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Profile"))]
#[derive(Serialize)]
pub(crate) struct View {
    #[serde(flatten)]
    user: AccountView,
    /// After a change of the password, which ends all sessions: a new one.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// What is to be otherwise.
pub(crate) struct Wish {
    change: AccountChange,
    password: Option<Secret>,
    current: Option<Secret>,
}

/// Shows it.
pub(crate) fn show(door: &Door, call: &Call) -> Result<Reply, Error> {
    Query::parse(call.query.as_deref(), &[])?;
    let account = door.room.users.account(call.user)?.ok_or(GONE)?;
    Ok(envelope::data(View { user: AccountView::of(account), token: None }))
}

/// Changes it. `null` takes an address or a picture away; a new password needs the current one, where there is one.
pub(crate) async fn change(door: &Arc<Door>, call: &Call, body: Arriving) -> Result<Reply, Error> {
    let Wish { mut change, password, current } = read(form::read(door, call, body).await?)?;
    if let Some(password) = password {
        confirm(door, call, current).await?;
        change.password = Some(password::hash(door, password).await?);
    }
    let opens = change.password.is_some();
    let account = door.room.users.change_account(call.user, change).await?.ok_or(GONE)?;
    answer(door, call, account, opens)
}

/// What the object says.
pub(crate) fn read(map: Map<String, Value>) -> Result<Wish, Error> {
    let is_null = |map: &Map<String, Value>, name| map.get(name).is_some_and(Value::is_null);
    let (no_email, no_avatar) = (is_null(&map, "email"), is_null(&map, "avatar"));
    let mut fields = Fields::new(map, KNOWN)?;
    let email = fields.text("email")?.map(email_of).transpose()?;
    let avatar = fields.text("avatar")?.map(avatar_of).transpose()?;
    let password = form::secret(&mut fields, "password")?;
    let password = password.map(|password| password::fit("password", password)).transpose()?;
    let current = form::secret(&mut fields, "current_password")?.map(Secret::from);
    let change = AccountChange {
        email: if no_email { Some(None) } else { email.map(Some) },
        avatar: if no_avatar { Some(None) } else { avatar.map(Some) },
        ..AccountChange::default()
    };
    Ok(Wish { change, password, current })
}

fn answer(door: &Door, call: &Call, account: Account, opens: bool) -> Result<Reply, Error> {
    if !opens {
        return Ok(envelope::data(View { user: AccountView::of(account), token: None }));
    }
    let token = opened::token(door, &account)?;
    let mut reply = envelope::data(View { user: AccountView::of(account), token: Some(token.clone()) });
    opened::give_cookie(door, &call.headers, &mut reply, &token);
    Ok(reply)
}

/// Whether it is the owner who wants another password, not somebody at their desk. Guesses count as failed logins.
async fn confirm(door: &Door, call: &Call, current: Option<Secret>) -> Result<(), Error> {
    let account = door.room.users.account(call.user)?.ok_or(GONE)?;
    let Some(hash) = account.password else {
        let is_whole = call.caller.scopes == TokenScopes::ALL;
        let refused = Error::Forbidden("the API key lacks the scopes for setting the first password");
        return if is_whole { Ok(()) } else { Err(refused) };
    };
    let Some(current) = current else {
        return Err(Error::value(
            "current_password",
            "'current_password' is missing: a new password needs it",
        ));
    };
    let name = account.username.as_str();
    door.auth.throttle.attempt(name, call.address, door.room.clock.monotonic_ms())?;
    if !door.auth.passwords.is_right(current, Some(hash)).await? {
        return Err(Error::Forbidden("'current_password' is wrong"));
    }
    door.auth.throttle.succeeded(name, call.address);
    Ok(())
}

fn avatar_of(text: String) -> Result<String, Error> {
    if text.chars().count() > AVATAR_CHARS || text.chars().any(char::is_control) {
        let wanted =
            format!("'avatar' must be at most {AVATAR_CHARS} characters, none of them a control character");
        return Err(Error::value("avatar", wanted));
    }
    Ok(text)
}
