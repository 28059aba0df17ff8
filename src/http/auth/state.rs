//! What requests share to authenticate their callers: keys for signing, password hashing,
//! throttles and rate limits.

use super::caller::{Caller, CallerProof};
use super::local_windows::LocalWindows;
use super::login_throttle::LoginThrottle;
use super::password::Passwords;
use super::rate_limit::RequestRates;
use super::session::SessionSigner;
use super::ticket::TicketStreams;
use super::watched_callers::WatchedCallers;
use crate::http::dependencies::AppDependencies;
use crate::ports::RateWindows;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) struct AuthState {
    pub(crate) sessions: SessionSigner,
    pub(crate) passwords: Passwords,
    pub(crate) throttle: LoginThrottle,
    pub(crate) rates: RequestRates,
    pub(crate) tickets: TicketStreams,
    /// Whether there was an account at the last look.
    pub(crate) has_accounts: AtomicBool,
    pub(crate) watched: WatchedCallers,
}

impl AuthState {
    pub(crate) fn new(app: &AppDependencies) -> Self {
        let local = || -> Arc<dyn RateWindows> { Arc::new(LocalWindows::new(Arc::clone(&app.clock))) };
        let windows = app.windows.clone().unwrap_or_else(local);
        Self {
            sessions: SessionSigner::new(&app.auth.session_key),
            passwords: Passwords::new(),
            throttle: LoginThrottle::new(&app.limits, windows),
            rates: RequestRates::new(&app.limits, app.windows.clone()),
            tickets: TicketStreams::new(app.windows.clone()),
            has_accounts: AtomicBool::new(false),
            watched: WatchedCallers::default(),
        }
    }

    /// A stream of this caller is open: the ticket that opened it may resume it.
    pub(crate) fn record_open(&self, caller: Caller, now_ms: u64) {
        if let CallerProof::Ticket { stream, .. } = caller.proof {
            self.tickets.record_open(stream, now_ms);
        }
    }
}
