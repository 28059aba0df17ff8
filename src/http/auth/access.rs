//! Who may use a route.

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteAccess {
    /// Everybody.
    Public,
    /// Everybody. A valid credential names the caller; any other counts as none.
    Optional,
    /// Authenticated users.
    User,
    /// Authenticated users. The route changes nothing, so a key with scope `read` is enough whatever the
    /// method.
    Read,
    /// Authenticated users; a ticket in the query is accepted, for an `EventSource`, which sends no
    /// headers.
    Stream,
    /// Administrators.
    Admin,
    /// Administrators, with a key of scope `read` at least; everybody if the configuration says so.
    Scrape,
}
