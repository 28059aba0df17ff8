//! A request's head as handlers see it: who asks, from where, and for what.

use super::peer::ClientAddress;
use super::query::QueryString;
use crate::domain::id::UserId;
use crate::http::auth::Caller;
use crate::http::error::ApiError;
use crate::http::middleware::request_id::RequestId;
use crate::http::server::client_socket::SocketState;
use crate::http::shares::ShareOwner;
use hyper::{HeaderMap, Method, Version};
use std::str::FromStr;

/// A request without its body. The query has only parameters that its route knows.
pub(crate) struct RequestContext {
    pub(crate) request_id: RequestId,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) user: UserId,
    pub(crate) caller: Caller,
    pub(crate) address: ClientAddress,
    /// Whose shares the request uses.
    pub(crate) owner: Option<ShareOwner>,
    pub(crate) headers: HeaderMap,
    pub(crate) query: QueryString,
    pub(crate) segments: PathParameters,
    /// The socket that the request came from.
    pub(crate) socket: SocketState,
}

/// Parameters of the path: name and decoded text.
pub(crate) type PathParameters = Vec<(&'static str, String)>;

impl RequestContext {
    /// The decoded text of `{name}`; empty if the route has no such parameter.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.segments.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// The id in the path. A malformed one is a 404, as is one of somebody else (P7).
    pub(crate) fn id<T: FromStr>(&self, what: &'static str) -> Result<T, ApiError> {
        self.segment("id").parse().map_err(|_| ApiError::NotFound(what))
    }
}
