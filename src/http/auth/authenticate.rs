//! From a request's head to a [`Caller`], or a 401.

use super::api_key::{self, SecretKind};
use super::caller::{Caller, CallerProof};
use super::cookie;
use super::rate_limit::RateLimitStatus;
use super::session::TokenPurpose;
use super::ticket::{TicketOpener, TicketStream};
use crate::domain::account::{Account, AuthMode, TokenScopes};
use crate::domain::id::UserId;
use crate::http::context::ServerContext;
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::ports::SecretDigest;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderName};
use hyper::http::request::Parts;

/// The same text whatever is wrong with a credential.
const LOGIN: ApiError = ApiError::Unauthorized("Unauthorized - please login");

/// An API key, as clients of Anthropic send it.
const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Finds the caller; a 401 without a valid credential. [`Caller::may`] checks what the caller may do.
pub(crate) fn authenticate(
    context: &ServerContext,
    head: &Parts,
    ticket: Option<&str>,
) -> Result<Caller, ApiError> {
    if context.app.auth.mode == AuthMode::Single {
        // Without accounts no credential is checked, but a command that has read the control file of another
        // server must not mistake this one for it.
        let is_foreign =
            |key| !is_control_key(context, key) && api_key::digest_of(SecretKind::Control, key).is_some();
        let is_of_other_server = credential(&head.headers).is_ok_and(|key| key.is_some_and(is_foreign));
        return if is_of_other_server { Err(LOGIN) } else { Ok(Caller::SINGLE) };
    }
    if let Some(credential) = credential(&head.headers)? {
        if is_control_key(context, credential) {
            return Ok(Caller::SINGLE);
        }
        let found = match api_key::digest_of(SecretKind::Key, credential) {
            Some(digest) => by_key(context, &digest)?,
            None => by_session(context, credential)?,
        };
        return found.ok_or(LOGIN);
    }
    if let Some(token) = cookie::session(head)
        && let Some(caller) = by_session(context, token)?
    {
        return Ok(caller);
    }
    match ticket {
        Some(ticket) => by_ticket(context, ticket, head.uri.path())?.ok_or(LOGIN),
        None => Err(LOGIN),
    }
}

/// Checks the caller again after a body has arrived, and during long answers: the account, role, key or
/// session may be gone by then.
pub(crate) fn confirm(context: &ServerContext, caller: Caller) -> Result<(), ApiError> {
    let app = &context.app;
    let now = match caller.proof {
        CallerProof::Nobody | CallerProof::Server => return Ok(()),
        CallerProof::Session { generation, until_ms } => {
            if is_over(app, Some(until_ms)) {
                None
            } else {
                of_generation(app, caller, generation)?
            }
        }
        CallerProof::Ticket { generation, opener, .. } => {
            if is_valid(context, opener)? {
                of_generation(app, caller, generation)?
            } else {
                None
            }
        }
        CallerProof::Key { digest, .. } => by_key(context, &digest)?,
    };
    if caller.has_more_than(now.ok_or(LOGIN)?) { Err(LOGIN) } else { Ok(()) }
}

/// Counts a message that came with others in one request, or over one connection. Fails when the limit of its
/// user is passed.
pub(crate) fn count_message(context: &ServerContext, user: UserId) -> Result<(), ApiError> {
    if context.app.auth.mode != AuthMode::Multi {
        return Ok(());
    }
    let status = context.auth.rates.user(user, context.app.clock.monotonic_ms())?;
    status.as_ref().map_or(Ok(()), RateLimitStatus::check)
}

/// The credential of `Authorization: Bearer`, or else of `x-api-key`. Other schemes are left to proxies.
fn credential(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let line = only_line(headers, &AUTHORIZATION)?;
    let bearer = line.and_then(|line| {
        let (scheme, credential) = line.split_once(' ').unwrap_or((line, ""));
        scheme.eq_ignore_ascii_case("bearer").then(|| credential.trim())
    });
    match bearer {
        Some(credential) => Ok(Some(credential)),
        None => only_line(headers, &X_API_KEY),
    }
}

fn only_line<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(LOGIN);
    }
    Ok(Some(line.to_str().map_err(|_| LOGIN)?.trim()))
}

fn by_key(context: &ServerContext, digest: &SecretDigest) -> Result<Option<Caller>, ApiError> {
    let app = &context.app;
    let Some(token) = app.users.token(digest)? else { return Ok(None) };
    if is_over(app, token.expires_at_ms) {
        return Ok(None);
    }
    let proof = CallerProof::Key { digest: *digest, until_ms: token.expires_at_ms };
    Ok(active(app, token.user)?.map(|account| caller(&account, token.scopes, proof)))
}

fn by_session(context: &ServerContext, token: &str) -> Result<Option<Caller>, ApiError> {
    let app = &context.app;
    let now_ms = app.clock.now_ms();
    let Some(claims) = context.auth.sessions.read(token, TokenPurpose::Session, now_ms) else {
        return Ok(None);
    };
    let account = account_of_generation(app, claims.user_id, claims.generation)?;
    let proof = CallerProof::Session { generation: claims.generation, until_ms: claims.until_ms() };
    Ok(account.map(|account| caller(&account, TokenScopes::ALL, proof)))
}

/// A ticket is valid for half a minute. Once it opened a stream, it stays valid for resuming that stream.
fn by_ticket(context: &ServerContext, token: &str, path: &str) -> Result<Option<Caller>, ApiError> {
    let (app, auth) = (&context.app, &context.auth);
    let stream = TicketStream::of(token, path);
    let now_ms =
        if auth.tickets.may_resume(stream, app.clock.monotonic_ms()) { 0 } else { app.clock.now_ms() };
    let Some(claims) = auth.sessions.read(token, TokenPurpose::Ticket, now_ms) else { return Ok(None) };
    let opener = claims.opener.unwrap_or_default();
    if !is_valid(context, opener)? {
        return Ok(None);
    }
    let account = account_of_generation(app, claims.user_id, claims.generation)?;
    let proof = CallerProof::Ticket { generation: claims.generation, stream, opener };
    let scopes = TokenScopes { read: true, write: false, admin: false };
    Ok(account.map(|account| caller(&account, scopes, proof)))
}

/// Whether the credential behind a ticket is still valid. Its account is checked apart.
fn is_valid(context: &ServerContext, opener: TicketOpener) -> Result<bool, ApiError> {
    let is_known = match opener.key {
        Some(key) => by_key(context, &key)?.is_some(),
        None => true,
    };
    Ok(is_known && !is_over(&context.app, opener.until_ms))
}

fn is_over(app: &AppDependencies, until_ms: Option<u64>) -> bool {
    until_ms.is_some_and(|end| end <= app.clock.now_ms())
}

fn active(app: &AppDependencies, user: UserId) -> Result<Option<Account>, ApiError> {
    Ok(app.users.account(user)?.filter(|account| account.is_active))
}

/// The account, if its password has not changed since the session began.
fn account_of_generation(
    app: &AppDependencies,
    user: UserId,
    generation: u32,
) -> Result<Option<Account>, ApiError> {
    Ok(active(app, user)?.filter(|account| account.generation == generation))
}

/// What the caller of a session or ticket may do now.
fn of_generation(app: &AppDependencies, then: Caller, generation: u32) -> Result<Option<Caller>, ApiError> {
    let account = account_of_generation(app, then.user, generation)?;
    Ok(account.map(|account| caller(&account, then.scopes, then.proof)))
}

fn caller(account: &Account, scopes: TokenScopes, proof: CallerProof) -> Caller {
    Caller { user: account.id, role: account.role, scopes, proof }
}

/// Whether this is the control key, with which the command line on this machine authenticates.
fn is_control_key(context: &ServerContext, key: &str) -> bool {
    let Some(known) = &context.app.auth.control_key_digest else { return false };
    // Compares all bytes: constant time.
    let difference = api_key::digest(key).iter().zip(known).fold(0, |seen, (a, b)| seen | (a ^ b));
    difference == 0
}
