//! Requests per minute of a user, or of an address before login, and the headers that report them.

use super::reserved_windows::ReservedWindows;
use super::window_counter::{WindowCount, WindowCounter};
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::peer::ClientAddress;
use crate::ports::{RateWindows, StoreError};
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

/// The window, seconds.
const WINDOW_S: u64 = 60;
/// Most users and addresses with a counter of their own.
const KEYS: usize = 16_384;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

pub(crate) struct RequestRates {
    /// Requests of one user in a window; 0: no limit.
    quota: u64,
    /// By the number of the user.
    users: RequestCounter<u32>,
    addresses: RequestCounter<ClientAddress>,
}

/// Counts requests by key.
enum RequestCounter<K> {
    /// Those of this server.
    Local(WindowCounter<K>),
    /// Those of all nodes.
    Shared(ReservedWindows<K>),
}

impl<K: Eq + Hash + Clone + Display> RequestCounter<K> {
    fn new(name: &'static str, quota: u64, windows: Option<Arc<dyn RateWindows>>) -> Self {
        let window_ms = WINDOW_S * 1_000;
        match windows {
            Some(windows) => Self::Shared(ReservedWindows::new(name, (window_ms, quota), windows)),
            None => Self::Local(WindowCounter::new(window_ms, KEYS)),
        }
    }

    fn add(&self, key: K, now_ms: u64) -> Result<WindowCount, StoreError> {
        match self {
            Self::Local(counter) => Ok(counter.add(key, now_ms)),
            Self::Shared(windows) => windows.add(key, now_ms),
        }
    }
}

/// The rate limit of a caller after this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    quota: u64,
    count: WindowCount,
}

impl RequestRates {
    /// `windows` count over all nodes; `None`: this server counts its own requests.
    pub(crate) fn new(limits: &Limits, windows: Option<Arc<dyn RateWindows>>) -> Self {
        let quota = u64::from(limits.user_requests_per_minute);
        Self {
            quota,
            users: RequestCounter::new("request user", quota, windows.clone()),
            addresses: RequestCounter::new("request address", quota, windows),
        }
    }

    /// Counts a request of a user; `None` without a limit.
    pub(crate) fn user(&self, user: UserId, now_ms: u64) -> Result<Option<RateLimitStatus>, StoreError> {
        self.status(|| self.users.add(user.0, now_ms))
    }

    /// Counts a request before login; `None` without a limit or without a client address.
    pub(crate) fn address(
        &self,
        address: ClientAddress,
        now_ms: u64,
    ) -> Result<Option<RateLimitStatus>, StoreError> {
        if !address.is_own() {
            return Ok(None);
        }
        self.status(|| self.addresses.add(address, now_ms))
    }

    fn status(
        &self,
        count: impl FnOnce() -> Result<WindowCount, StoreError>,
    ) -> Result<Option<RateLimitStatus>, StoreError> {
        if self.quota == 0 {
            return Ok(None);
        }
        Ok(Some(RateLimitStatus { quota: self.quota, count: count()? }))
    }
}

impl RateLimitStatus {
    /// Fails when the limit is passed.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        if self.count.count <= self.quota {
            return Ok(());
        }
        let message =
            format!("more than limits.user_requests_per_minute = {} requests in a minute", self.quota);
        Err(ApiError::TooMany { message, retry_after_s: self.count.left_s() })
    }

    /// Sets the headers of draft-ietf-httpapi-ratelimit-headers-11.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        let policy = format!("\"requests\";q={};w={WINDOW_S}", self.quota);
        let left = self.quota.saturating_sub(self.count.count);
        let standing = format!("\"requests\";r={left};t={}", self.count.left_s());
        for (name, value) in [(RATELIMIT_POLICY, policy), (RATELIMIT, standing)] {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::request::peer::Peer;

    fn rates(quota: u32) -> RequestRates {
        RequestRates::new(&Limits { user_requests_per_minute: quota, ..Limits::default() }, None)
    }

    #[test]
    fn p8_requests_per_minute_are_limited_and_reported() {
        let rates = rates(2);
        let first = rates.user(UserId(1), 0).unwrap().expect("a bound");
        let mut headers = HeaderMap::new();
        first.write(&mut headers);
        assert_eq!(headers[RATELIMIT_POLICY], "\"requests\";q=2;w=60");
        assert_eq!(headers[RATELIMIT], "\"requests\";r=1;t=60");
        assert!(rates.user(UserId(1), 1_000).unwrap().expect("a bound").check().is_ok());
        let third = rates.user(UserId(1), 30_500).unwrap().expect("a bound");
        assert!(matches!(third.check(), Err(ApiError::TooMany { retry_after_s: 30, .. })));
        third.write(&mut headers);
        assert_eq!(headers[RATELIMIT], "\"requests\";r=0;t=30");
        assert!(
            rates.user(UserId(2), 30_500).unwrap().expect("a bound").check().is_ok(),
            "others are others"
        );
        assert!(rates.user(UserId(1), 60_000).unwrap().expect("a bound").check().is_ok());
    }

    #[test]
    fn clients_behind_a_proxy_without_addresses_share_no_limit() {
        let rates = rates(1);
        let of = |peer: [u8; 4]| ClientAddress::of(Peer(Some(peer.into())), &HeaderMap::new());
        assert_eq!(rates.address(of([127, 0, 0, 1]), 0).unwrap(), None);
        let address = || rates.address(of([203, 0, 113, 9]), 0).unwrap().unwrap();
        assert!(address().check().is_ok());
        assert!(address().check().is_err());
    }

    #[test]
    fn a_rate_limit_of_zero_means_unlimited() {
        assert_eq!(rates(0).user(UserId(1), 0).unwrap(), None);
    }
}
