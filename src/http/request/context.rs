//! A request's head as handlers see it: who asks, from where, and for what.

use super::peer::ClientAddress;
use crate::domain::id::UserId;
use crate::http::auth::Caller;
use hyper::HeaderMap;

/// Who asks, and for what; the body goes apart.
pub(crate) struct RequestContext {
    pub(crate) user: UserId,
    /// Everything that is known of who asks.
    pub(crate) caller: Caller,
    /// From where.
    pub(crate) address: ClientAddress,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
    pub(crate) segments: PathParameters,
}

/// What stood in a path for the names of its route.
pub(crate) type PathParameters = Vec<(&'static str, String)>;

impl RequestContext {
    /// What stood for `{name}`, decoded; empty for a name that the route does not have.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.segments.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }
}
