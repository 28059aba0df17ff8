//! `POST /api/auth/register`. Who may is the store's to decide, in one act with the making.

use super::{form, opened};
use crate::domain::account::{AuthMode, Email, Registration, Role, Username};
use crate::domain::secret::Secret;
use crate::http::arriving::Arriving;
use crate::http::auth::minted::{self, Kind};
use crate::http::auth::password;
use crate::http::door::Door;
use crate::http::error::Error;
use crate::http::reply::Reply;
use crate::http::router::Call;
use crate::http::v1::field::Fields;
use crate::ports::{NewAccount, RegistrationGate, StoreError};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What an account is made of.
pub(crate) const KNOWN: &[&str] = &["username", "password", "email", "invite"];

/// Who wants to come in from now on.
pub(crate) struct Wish {
    username: Username,
    password: Secret,
    email: Option<Email>,
    invite: Option<String>,
}

/// Makes an account, and opens its first session.
pub(crate) async fn register(door: &Arc<Door>, call: &Call, body: Arriving) -> Result<Reply, Error> {
    if door.room.auth.mode == AuthMode::Single {
        return Err(Error::Forbidden("there are no accounts: the server runs with auth_mode: single"));
    }
    let Wish { username, password, email, invite } = read(form::read(door, call, body).await?)?;
    let admission = admission(door, invite)?;
    let password = password::hash(door, password).await?;
    let created_at_ms = door.room.clock.now_ms();
    let new = NewAccount { username, email, password, role: Role::User, admission, created_at_ms };
    let account = door.room.users.register(new).await?;
    opened::opened(door, &call.headers, account)
}

/// What the object says.
pub(crate) fn read(map: Map<String, Value>) -> Result<Wish, Error> {
    let mut fields = Fields::new(map, KNOWN)?;
    let (username, password) = (fields.text("username")?, form::secret(&mut fields, "password")?);
    let (username, password) = form::both(("username", username), ("password", password))?;
    let password = password::fit("password", password)?;
    let username = Username::try_from(username)
        .map_err(|rule| Error::value("username", format!("'username' {rule}")))?;
    let email = fields.text("email")?.map(email_of).transpose()?;
    Ok(Wish { username, password, email, invite: form::secret(&mut fields, "invite")? })
}

/// An address out of a body.
pub(super) fn email_of(text: String) -> Result<Email, Error> {
    Email::try_from(text).map_err(|rule| Error::value("email", format!("'email' {rule}")))
}

/// Why this may be an account. What is hopeless is refused before a password is hashed for it.
fn admission(door: &Door, invite: Option<String>) -> Result<RegistrationGate, Error> {
    let invite = invite.and_then(|code| minted::digest_of(Kind::Invite, code.trim()));
    let room = &door.room;
    let is_first = || room.users.has_no_accounts();
    match (room.auth.registration, invite) {
        (Registration::Open, _) => Ok(RegistrationGate::Open),
        (Registration::Closed, _) if is_first()? => Ok(RegistrationGate::FirstOnly),
        (Registration::Closed, _) => Err(StoreError::RegistrationClosed.into()),
        (Registration::Invite, None) if !is_first()? => Err(StoreError::NotInvited.into()),
        (Registration::Invite, invite) => Ok(RegistrationGate::Invited(invite)),
    }
}
