//! A request's head as handlers see it: who asks, from where, and for what.

use super::peer::ClientAddress;
use crate::domain::id::UserId;
use crate::http::auth::Caller;
use hyper::HeaderMap;

/// A request without its body.
pub(crate) struct RequestContext {
    pub(crate) user: UserId,
    pub(crate) caller: Caller,
    pub(crate) address: ClientAddress,
    pub(crate) headers: HeaderMap,
    pub(crate) query: Option<String>,
    pub(crate) segments: PathParameters,
}

/// Parameters of the path: name and decoded text.
pub(crate) type PathParameters = Vec<(&'static str, String)>;

impl RequestContext {
    /// The decoded text of `{name}`; empty if the route has no such parameter.
    pub(crate) fn segment(&self, name: &str) -> &str {
        self.segments.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }
}
