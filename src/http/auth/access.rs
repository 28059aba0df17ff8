//! Who may use a route.

/// Who may take a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Everybody who may knock at all.
    Public,
    /// Whoever has come in.
    User,
    /// The same, and nothing changes by it, whatever the method: an API key that only reads may.
    Read,
    /// The same as [`RouteAccess::User`], but a ticket in the query does as well: it streams, to browsers that send no headers.
    Stream,
    /// Administrators.
    Admin,
    /// Administrators, and an API key of theirs that only reads does; everybody where the operator says so.
    Scrape,
}
