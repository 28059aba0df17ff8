//! Requests per minute of a user, or of an address before login, and the headers that report them.

use super::window_counter::{WindowCount, WindowCounter};
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::peer::ClientAddress;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The window, seconds.
const WINDOW_S: u64 = 60;
/// Most users and addresses with a counter of their own.
const KEYS: usize = 16_384;

const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

pub(crate) struct RequestRates {
    /// Requests of one user in a window; 0: no limit.
    quota: u64,
    users: WindowCounter<UserId>,
    addresses: WindowCounter<ClientAddress>,
}

/// The rate limit of a caller after this request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    quota: u64,
    count: WindowCount,
}

impl RequestRates {
    pub(crate) fn new(limits: &Limits) -> Self {
        let window_ms = WINDOW_S * 1_000;
        let quota = u64::from(limits.user_requests_per_minute);
        Self {
            quota,
            users: WindowCounter::new(window_ms, KEYS),
            addresses: WindowCounter::new(window_ms, KEYS),
        }
    }

    /// Counts a request of a user; `None` without a limit.
    pub(crate) fn user(&self, user: UserId, now_ms: u64) -> Option<RateLimitStatus> {
        self.standing(|| self.users.add(user, now_ms))
    }

    /// Counts a request before login; `None` without a limit or without a client address.
    pub(crate) fn address(&self, address: ClientAddress, now_ms: u64) -> Option<RateLimitStatus> {
        let counted = || self.standing(|| self.addresses.add(address, now_ms));
        address.is_own().then(counted).flatten()
    }

    fn standing(&self, count: impl FnOnce() -> WindowCount) -> Option<RateLimitStatus> {
        (self.quota > 0).then(|| RateLimitStatus { quota: self.quota, count: count() })
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
        RequestRates::new(&Limits { user_requests_per_minute: quota, ..Limits::default() })
    }

    #[test]
    fn p8_requests_per_minute_are_limited_and_reported() {
        let rates = rates(2);
        let first = rates.user(UserId(1), 0).expect("a bound");
        let mut headers = HeaderMap::new();
        first.write(&mut headers);
        assert_eq!(headers[RATELIMIT_POLICY], "\"requests\";q=2;w=60");
        assert_eq!(headers[RATELIMIT], "\"requests\";r=1;t=60");
        assert!(rates.user(UserId(1), 1_000).expect("a bound").check().is_ok());
        let third = rates.user(UserId(1), 30_500).expect("a bound");
        assert!(matches!(third.check(), Err(ApiError::TooMany { retry_after_s: 30, .. })));
        third.write(&mut headers);
        assert_eq!(headers[RATELIMIT], "\"requests\";r=0;t=30");
        assert!(rates.user(UserId(2), 30_500).expect("a bound").check().is_ok(), "others are others");
        assert!(rates.user(UserId(1), 60_000).expect("a bound").check().is_ok());
    }

    #[test]
    fn clients_behind_a_proxy_without_addresses_share_no_limit() {
        let rates = rates(1);
        let of = |peer: [u8; 4]| ClientAddress::of(Peer(Some(peer.into())), &HeaderMap::new());
        assert_eq!(rates.address(of([127, 0, 0, 1]), 0), None);
        assert!(rates.address(of([203, 0, 113, 9]), 0).is_some_and(|standing| standing.check().is_ok()));
        assert!(rates.address(of([203, 0, 113, 9]), 0).is_some_and(|standing| standing.check().is_err()));
    }

    #[test]
    fn a_rate_limit_of_zero_means_unlimited() {
        assert_eq!(rates(0).user(UserId(1), 0), None);
    }
}
