//! Who asks. Owns the way from a request's head to a [`Caller`]; refuses to know what is asked for.
//!
//! A credential is an API key, the control key or a session in `Authorization`, a session in a cookie, or a ticket in the query of what
//! streams. Whatever it is, the account is read for each request: a change of password, role or activity counts at once.

pub(crate) mod control;
pub(crate) mod cookie;
pub(crate) mod minted;
pub(crate) mod password;
mod rate;
mod session;
mod tally;
mod throttle;
pub(crate) mod ticket;

use super::door::Door;
use super::error::Error;
use super::room::Room;
use super::routes::Access;
use crate::domain::account::{Account, AuthMode, Role, TokenScopes};
use crate::domain::id::UserId;
use crate::ports::SecretDigest;
use hyper::header::AUTHORIZATION;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use minted::Kind;
use password::Passwords;
pub(crate) use rate::{Rates, Standing};
pub(crate) use session::{Purpose, Sessions, TICKET_S};
use throttle::Throttle;

/// One answer for whatever is wrong with a credential.
const LOGIN: Error = Error::Unauthorized("Unauthorized - please login");

/// What requests share to find out who asks.
pub(crate) struct Auth {
    pub(crate) sessions: Sessions,
    pub(crate) passwords: Passwords,
    pub(crate) throttle: Throttle,
    pub(crate) rates: Rates,
}

impl Auth {
    pub(crate) fn new(room: &Room) -> Self {
        Self {
            sessions: Sessions::new(&room.auth.session_key),
            passwords: Passwords::new(),
            throttle: Throttle::new(&room.limits),
            rates: Rates::new(&room.limits),
        }
    }
}

/// Who asks, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// What the credential allows.
    pub(crate) scopes: TokenScopes,
    /// What let them in.
    proof: Proof,
}

/// What let somebody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing had to.
    Nobody,
    /// The server's own mode, or the key of the command line beside it.
    Server,
    /// A session, or a ticket made by one.
    Session { generation: u32 },
    /// An API key.
    Key { digest: SecretDigest, until_ms: Option<u64> },
}

impl Caller {
    /// Whoever asks for what is public.
    pub(crate) const NOBODY: Self = Self {
        scopes: TokenScopes { read: true, write: false, admin: false },
        ..Self::of(UserId(0), Role::User, Proof::Nobody)
    };
    /// The one user of single mode.
    pub(crate) const SINGLE: Self = Self::of(UserId::SINGLE, Role::Admin, Proof::Server);

    const fn of(user: UserId, role: Role, proof: Proof) -> Self {
        Self { user, role, scopes: TokenScopes::ALL, proof }
    }

    /// Somebody whom nobody asks again, for tests of who may do what.
    #[cfg(test)]
    pub(crate) const fn known(user: UserId, role: Role, scopes: TokenScopes) -> Self {
        Self { user, role, scopes, proof: Proof::Server }
    }

    /// When the credential ends by itself, unix milliseconds, if it is one that makes others.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self.proof {
            Proof::Key { until_ms, .. } => until_ms,
            _ => None,
        }
    }

    /// Whether the role and the credential suffice.
    pub(crate) fn may(self, method: &Method, access: Access) -> Result<(), Error> {
        let reads = access == Access::Read || matches!(*method, Method::GET | Method::HEAD);
        if matches!(access, Access::Admin | Access::Scrape) && self.role != Role::Admin {
            return Err(Error::Forbidden("only administrators may do this"));
        }
        if access == Access::Admin && !self.scopes.admin {
            return Err(Error::Forbidden("the API key lacks the scope 'admin'"));
        }
        match reads {
            true if !self.scopes.read => Err(Error::Forbidden("the API key lacks the scope 'read'")),
            false if !self.scopes.write => Err(Error::Forbidden("the API key lacks the scope 'write'")),
            _ => Ok(()),
        }
    }
}

/// Lets the request in as somebody, or says why not: 401 without a credential that holds. Whether it suffices is
/// [`Caller::may`]'s to say.
pub(crate) fn admit(door: &Door, head: &Parts, ticket: Option<&str>) -> Result<Caller, Error> {
    if door.room.auth.mode == AuthMode::Single {
        return Ok(Caller::SINGLE);
    }
    if let Some(credential) = bearer(&head.headers)? {
        if control::is_control(door, credential) {
            return Ok(Caller::SINGLE);
        }
        let found = match minted::digest_of(Kind::Key, credential) {
            Some(digest) => by_key(door, &digest)?,
            None => by_proof(door, credential, Purpose::Session)?,
        };
        return found.ok_or(LOGIN);
    }
    if let Some(token) = cookie::session(head)
        && let Some(caller) = by_proof(door, token, Purpose::Session)?
    {
        return Ok(caller);
    }
    match ticket {
        Some(ticket) => by_proof(door, ticket, Purpose::Ticket)?.ok_or(LOGIN),
        None => Err(LOGIN),
    }
}

/// Whether what let the caller in would still do so: a body may take its time to arrive, and accounts, roles and keys may go
/// meanwhile.
pub(crate) fn still(door: &Door, caller: Caller) -> Result<(), Error> {
    let role = match caller.proof {
        Proof::Nobody | Proof::Server => return Ok(()),
        Proof::Session { generation } => {
            of_generation(&door.room, caller.user, generation)?.map(|now| now.role)
        }
        Proof::Key { digest, .. } => by_key(door, &digest)?.map(|now| now.role),
    };
    let role = role.ok_or(LOGIN)?;
    if caller.role == Role::Admin && role != Role::Admin { Err(LOGIN) } else { Ok(()) }
}

/// What stands behind `Bearer`. Other schemes are a proxy's business.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let mut lines = headers.get_all(AUTHORIZATION).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(LOGIN);
    }
    let line = line.to_str().map_err(|_| LOGIN)?.trim();
    let (scheme, credential) = line.split_once(' ').unwrap_or((line, ""));
    Ok(scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim()))
}

fn by_key(door: &Door, digest: &SecretDigest) -> Result<Option<Caller>, Error> {
    let room = &door.room;
    let Some(token) = room.users.token(digest)? else { return Ok(None) };
    if token.expires_at_ms.is_some_and(|end| end <= room.clock.now_ms()) {
        return Ok(None);
    }
    let proof = Proof::Key { digest: *digest, until_ms: token.expires_at_ms };
    Ok(active(room, token.user)?.map(|account| caller(&account, token.scopes, proof)))
}

fn by_proof(door: &Door, proof: &str, purpose: Purpose) -> Result<Option<Caller>, Error> {
    let room = &door.room;
    let Some(claims) = door.auth.sessions.read(proof, purpose, room.clock.now_ms()) else { return Ok(None) };
    let account = of_generation(room, claims.user_id, claims.generation)?;
    let scopes = match purpose {
        Purpose::Session => TokenScopes::ALL,
        Purpose::Ticket => TokenScopes { read: true, write: false, admin: false },
        Purpose::Single => return Ok(None),
    };
    let proof = Proof::Session { generation: claims.generation };
    Ok(account.map(|account| caller(&account, scopes, proof)))
}

fn active(room: &Room, user: UserId) -> Result<Option<Account>, Error> {
    Ok(room.users.account(user)?.filter(|account| account.is_active))
}

/// The account, if its password is still the one under which the session was opened.
fn of_generation(room: &Room, user: UserId, generation: u32) -> Result<Option<Account>, Error> {
    Ok(active(room, user)?.filter(|account| account.generation == generation))
}

fn caller(account: &Account, scopes: TokenScopes, proof: Proof) -> Caller {
    Caller { user: account.id, role: account.role, scopes, proof }
}

#[cfg(test)]
mod tests;
