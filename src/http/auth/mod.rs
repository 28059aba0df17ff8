//! Authentication: from a request's head to a [`Caller`].
//!
//! A credential is an API key, the control key or a session in `Authorization`, a session in a cookie, or a
//! ticket in the query of a stream. The account is read for each request, so a new password, role or a
//! disabled account counts at once.

mod access;
pub(crate) mod api_key;
mod authenticate;
mod caller;
pub(crate) mod cookie;
mod local_windows;
mod login_throttle;
pub(crate) mod password;
mod rate_limit;
mod reserved_windows;
mod session;
pub mod setup_invite;
mod state;
pub(crate) mod ticket;
mod watched_callers;
mod window_counter;

pub(crate) use access::RouteAccess;
pub(crate) use authenticate::{authenticate, confirm, count_message};
pub(crate) use caller::{Caller, CallerProof};
pub(crate) use rate_limit::RateLimitStatus;
pub(crate) use session::{TICKET_S, TokenPurpose};
pub(crate) use state::AuthState;
pub(crate) use watched_callers::{ACCESS_LOST, RevocationSignal};

#[cfg(test)]
mod tests;
