//! Authentication, rate limit and role check of a request, before its handler runs.

use super::tracker::RequestNotes;
use crate::domain::account::AuthMode;
use crate::http::auth::{self, Caller, CallerProof, RateLimitStatus, RouteAccess};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::peer::{ClientAddress, Peer};
use crate::http::routes::ApiRoute;
use hyper::http::request::Parts;

/// Who sends the request, from where, and the query without a ticket; or why the request is refused.
pub(crate) fn admit(
    context: &ServerContext,
    head: &Parts,
    route: &ApiRoute,
    notes: &mut RequestNotes,
) -> Result<(Caller, ClientAddress, Option<String>), ApiError> {
    let peer = head.extensions.get().copied().unwrap_or(Peer(None));
    let address = ClientAddress::of(peer, &head.headers);
    let (ticket, query) = match route.access {
        RouteAccess::Stream => auth::ticket::split_query(head.uri.query()),
        _ => (None, head.uri.query().map(str::to_owned)),
    };
    let has_accounts = context.app.auth.mode == AuthMode::Multi;
    let now_ms = context.app.clock.monotonic_ms();
    let access = match route.access {
        RouteAccess::Scrape if context.app.auth.metrics_are_public => RouteAccess::Public,
        access => access,
    };
    let caller = caller_of(context, head, access, ticket.as_deref())?;
    if caller.proof == CallerProof::Nobody {
        let is_counted = has_accounts && route.path.starts_with("/api/auth/");
        notes.rate_limit = if is_counted { context.auth.rates.address(address, now_ms)? } else { None };
    } else {
        notes.rate_limit = if has_accounts { context.auth.rates.user(caller.user, now_ms)? } else { None };
        notes.details.user = has_accounts.then_some(caller.user.0);
    }
    notes.rate_limit.as_ref().map_or(Ok(()), RateLimitStatus::check)?;
    if !matches!(access, RouteAccess::Public | RouteAccess::Optional) {
        caller.may(&head.method, access)?;
    }
    Ok((caller, address, query))
}

fn caller_of(
    context: &ServerContext,
    head: &Parts,
    access: RouteAccess,
    ticket: Option<&str>,
) -> Result<Caller, ApiError> {
    if access == RouteAccess::Public {
        return Ok(Caller::NOBODY);
    }
    match auth::authenticate(context, head, ticket) {
        Err(ApiError::Unauthorized(_)) if access == RouteAccess::Optional => Ok(Caller::NOBODY),
        found => found,
    }
}
