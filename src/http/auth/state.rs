//! What requests share to authenticate their callers: keys for signing, password hashing,
//! throttles and rate limits.

use super::login_throttle::LoginThrottle;
use super::password::Passwords;
use super::rate_limit::RequestRates;
use super::session::SessionSigner;
use super::ticket::TicketStreams;
use crate::http::dependencies::AppDependencies;

pub(crate) struct AuthState {
    pub(crate) sessions: SessionSigner,
    pub(crate) passwords: Passwords,
    pub(crate) throttle: LoginThrottle,
    pub(crate) rates: RequestRates,
    pub(crate) tickets: TicketStreams,
}

impl AuthState {
    pub(crate) fn new(app: &AppDependencies) -> Self {
        Self {
            sessions: SessionSigner::new(&app.auth.session_key),
            passwords: Passwords::new(),
            throttle: LoginThrottle::new(&app.limits),
            rates: RequestRates::new(&app.limits),
            tickets: TicketStreams::default(),
        }
    }
}
