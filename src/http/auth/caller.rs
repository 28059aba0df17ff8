//! The authenticated sender of a request, and what it may do.

use super::access::RouteAccess;
use crate::domain::account::{Role, TokenScopes};
use crate::domain::id::UserId;
use crate::http::error::ApiError;
use crate::ports::SecretDigest;
use hyper::Method;

/// Who asks, once that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: UserId,
    pub(crate) role: Role,
    /// What the credential allows.
    pub(crate) scopes: TokenScopes,
    /// What let them in.
    pub(crate) proof: CallerProof,
}

/// What let somebody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallerProof {
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
        ..Self::of(UserId(0), Role::User, CallerProof::Nobody)
    };
    /// The one user of single mode.
    pub(crate) const SINGLE: Self = Self::of(UserId::SINGLE, Role::Admin, CallerProof::Server);

    const fn of(user: UserId, role: Role, proof: CallerProof) -> Self {
        Self { user, role, scopes: TokenScopes::ALL, proof }
    }

    /// Somebody whom nobody asks again, for tests of who may do what.
    #[cfg(test)]
    pub(crate) const fn known(user: UserId, role: Role, scopes: TokenScopes) -> Self {
        Self { user, role, scopes, proof: CallerProof::Server }
    }

    /// When the credential ends by itself, unix milliseconds, if it is one that makes others.
    pub(crate) fn until_ms(self) -> Option<u64> {
        match self.proof {
            CallerProof::Key { until_ms, .. } => until_ms,
            _ => None,
        }
    }

    /// Whether the role and the credential suffice.
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
