//! The authenticated sender of a request, and what it may do.

use super::access::RouteAccess;
use super::ticket::{TicketOpener, TicketStream};
use crate::domain::account::{Role, TokenScopes};
use crate::domain::id::UserId;
use crate::http::error::ApiError;
use crate::ports::SecretDigest;
use hyper::Method;

/// The authenticated sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// What the credential allows.
    pub(crate) scopes: TokenScopes,
    pub(crate) proof: CallerProof,
}

/// How the caller was authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CallerProof {
    /// Not at all.
    Nobody,
    /// By `auth_mode: single`, or by the control key.
    Server,
    /// By a session.
    Session { generation: u32, until_ms: u64 },
    /// By a ticket, for this stream.
    Ticket { generation: u32, stream: TicketStream, opener: TicketOpener },
    /// By an API key.
    Key { digest: SecretDigest, until_ms: Option<u64> },
}

impl Caller {
    /// The caller of a public route.
    pub(crate) const NOBODY: Self = Self {
        scopes: TokenScopes { read: true, write: false, admin: false },
        ..Self::of(UserId(0), Role::User, CallerProof::Nobody)
    };
    /// The one user of single mode.
    pub(crate) const SINGLE: Self = Self::of(UserId::SINGLE, Role::Admin, CallerProof::Server);

    const fn of(user: UserId, role: Role, proof: CallerProof) -> Self {
        Self { user, role, scopes: TokenScopes::ALL, proof }
    }

    /// A caller for tests.
    #[cfg(test)]
    pub(crate) const fn known(user: UserId, role: Role, scopes: TokenScopes) -> Self {
        Self { user, role, scopes, proof: CallerProof::Server }
    }

    /// When the API key expires, unix milliseconds: keys made with it expire no later.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self.proof {
            CallerProof::Key { until_ms, .. } => until_ms,
            _ => None,
        }
    }

    /// The credential that a ticket for this caller stands for.
    pub(crate) fn as_opener(self) -> TicketOpener {
        match self.proof {
            CallerProof::Key { digest, until_ms } => TicketOpener { key: Some(digest), until_ms },
            CallerProof::Session { until_ms, .. } => TicketOpener { key: None, until_ms: Some(until_ms) },
            CallerProof::Ticket { opener, .. } => opener,
            CallerProof::Nobody | CallerProof::Server => TicketOpener::default(),
        }
    }

    /// Whether it may do something that this one may not.
    pub(crate) fn has_more_than(self, other: Self) -> bool {
        let lacks = |then: bool, now: bool| then && !now;
        lacks(self.role == Role::Admin, other.role == Role::Admin)
            || lacks(self.scopes.read, other.scopes.read)
            || lacks(self.scopes.write, other.scopes.write)
            || lacks(self.scopes.admin, other.scopes.admin)
    }

    /// Checks role and scopes against the route.
    pub(crate) fn may(self, method: &Method, access: RouteAccess) -> Result<(), ApiError> {
        let reads = access == RouteAccess::Read || matches!(*method, Method::GET | Method::HEAD);
        if matches!(access, RouteAccess::Admin | RouteAccess::Scrape) && self.role != Role::Admin {
            return Err(ApiError::Forbidden("only administrators may do this"));
        }
        if access == RouteAccess::Admin && !self.scopes.admin {
            return Err(ApiError::Forbidden("the API key lacks the scope 'admin'"));
        }
        match reads {
            true if !self.scopes.read => Err(ApiError::Forbidden("the API key lacks the scope 'read'")),
            false if !self.scopes.write => Err(ApiError::Forbidden("the API key lacks the scope 'write'")),
            _ => Ok(()),
        }
    }
}
