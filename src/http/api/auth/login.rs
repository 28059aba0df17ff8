//! `POST /api/auth/login`. Says no in the same words, and after the same time, whether or not there is such an account.

use super::{form, opened};
use crate::domain::account::{Account, AuthMode};
use crate::domain::id::UserId;
use crate::domain::secret::Secret;
use crate::http::arriving::Arriving;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::query::Query;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::AccountChange;
use serde_json::{Map, Value};
use std::sync::Arc;

/// What is shown to come in.
pub(crate) const KNOWN: &[&str] = &["username", "password"];
const WRONG: Error = Error::Unauthorized("the username or the password is wrong");

/// Opens a session. In single mode whoever asks is the one user, whatever they say.
pub(crate) async fn login(door: &Arc<Door>, call: &Call, body: Arriving) -> Result<Reply, Error> {
    if door.room.auth.mode == AuthMode::Single {
        Query::parse(call.query.as_deref(), &[])?;
        let account = door.room.users.account(UserId::SINGLE)?.ok_or(Error::Internal)?;
        return opened::opened(door, &call.headers, account);
    }
    let (username, password) = read(form::read(door, call, body).await?)?;
    let account = known(door, call, &username, password).await?;
    if !account.is_active {
        return Err(Error::Forbidden("the account is disabled"));
    }
    let now_ms = door.room.clock.now_ms();
    let change = AccountChange { logged_in_at_ms: Some(now_ms), ..AccountChange::default() };
    let seen = door.room.users.change_account(account.id, change).await?;
    // What changed while the password was checked counts as well.
    let is_same = |seen: &Account| seen.is_active && seen.generation == account.generation;
    let account = seen.filter(is_same).ok_or(WRONG)?;
    opened::opened(door, &call.headers, account)
}

/// Who says to be who.
pub(crate) fn read(map: Map<String, Value>) -> Result<(String, Secret), Error> {
    let mut fields = Fields::new(map, KNOWN)?;
    let (username, password) = (fields.text("username")?, form::secret(&mut fields, "password")?);
    let (username, password) = form::both(("username", username), ("password", password))?;
    Ok((username, password.into()))
}

/// The account whose name and password these are.
async fn known(door: &Door, call: &Call, username: &str, password: Secret) -> Result<Account, Error> {
    let auth = &door.auth;
    auth.throttle.attempt(username, call.address, door.room.clock.monotonic_ms())?;
    let account = door.room.users.account_named(username.trim())?;
    let hash = account.as_ref().and_then(|account| account.password.clone());
    let is_right = auth.passwords.is_right(password, hash).await?;
    let account = account.filter(|_| is_right).ok_or(WRONG)?;
    auth.throttle.succeeded(username, call.address);
    Ok(account)
}
