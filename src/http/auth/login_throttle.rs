//! Limits failed logins by account and by address, over all nodes of a cluster. An address from which an
//! account has logged in before is counted alone, so that failures of others do not lock its owner out.

use super::window_counter::WindowCount;
use crate::domain::account::lookup_name;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::peer::ClientAddress;
use crate::ports::{RateWindow, RateWindows, StoreError};
use std::sync::Arc;

/// The longest account name, characters.
const NAME_CHARS: usize = 50;
/// How long an address from which an account has logged in is known, milliseconds.
const KNOWN_MS: u64 = 30 * 24 * 3_600_000;

/// Failed logins. An attempt counts as failed while its password is checked, so that parallel attempts do not
/// pass the limit. An attempt whose password was never checked does not count.
pub(crate) struct LoginThrottle {
    most: u64,
    window_ms: u64,
    windows: Arc<dyn RateWindows>,
}

/// Whose attempts are counted.
#[derive(Clone, Copy)]
enum LoginCounter<'a> {
    Account(&'a str),
    Address(ClientAddress),
    /// An account and an address from which it has logged in before.
    Pair(&'a LoginPair),
}

/// An account, and the address of an attempt.
#[derive(Debug, Clone)]
struct LoginPair {
    name: String,
    address: ClientAddress,
}

impl LoginPair {
    fn owner(&self) -> String {
        format!("{} {}", self.address, self.name)
    }
}

impl LoginThrottle {
    pub(crate) fn new(limits: &Limits, windows: Arc<dyn RateWindows>) -> Self {
        Self {
            most: u64::from(limits.login_failures.max(1)),
            window_ms: limits.login_window_s.saturating_mul(1_000),
            windows,
        }
    }

    /// Counts an attempt for this name, whether or not the account exists. Fails when a limit is reached;
    /// then nothing is counted.
    pub(crate) fn attempt(&self, name: &str, address: ClientAddress) -> Result<LoginAttempt<'_>, ApiError> {
        let pair = LoginPair { name: key(name), address };
        let is_known = address.is_own() && self.is_known(&pair)?;
        if is_known {
            self.count(LoginCounter::Pair(&pair))?;
        } else {
            self.count_unknown(&pair)?;
        }
        Ok(LoginAttempt { throttle: self, pair, is_known, is_checked: false })
    }

    fn count_unknown(&self, pair: &LoginPair) -> Result<(), ApiError> {
        if pair.address.is_own() {
            self.count(LoginCounter::Address(pair.address))?;
        }
        self.count(LoginCounter::Account(&pair.name)).inspect_err(|_| self.uncount_address(pair.address))
    }

    fn count(&self, counter: LoginCounter<'_>) -> Result<(), ApiError> {
        let found = self.with(counter, |window| self.windows.count(window, 1))?;
        if found.counted > 0 {
            return Ok(());
        }
        let which = match counter {
            LoginCounter::Address(_) => "from your address",
            LoginCounter::Account(_) | LoginCounter::Pair(_) => "to this account",
        };
        let full = WindowCount { count: found.total, left_ms: found.left_ms };
        Err(too_many(which, full.left_s()))
    }

    fn uncount_address(&self, address: ClientAddress) {
        if address.is_own() {
            self.uncount(LoginCounter::Address(address));
        }
    }

    /// An attempt that cannot be uncounted stays counted for the rest of its window.
    fn uncount(&self, counter: LoginCounter<'_>) {
        if let Err(error) = self.with(counter, |window| self.windows.uncount(window)) {
            tracing::debug!(%error, "cannot uncount a login");
        }
    }

    /// Forgets the failures before. Addresses from which accounts have logged in are remembered for the next
    /// attempts.
    fn succeeded(&self, pair: &LoginPair, is_known: bool) -> Result<(), StoreError> {
        self.with(LoginCounter::Account(&pair.name), |window| self.windows.forget(window))?;
        // Behind a proxy that reports no address all clients look the same.
        if !pair.address.is_own() {
            return Ok(());
        }
        self.with(LoginCounter::Pair(pair), |window| self.windows.forget(window))?;
        if !is_known {
            self.with(LoginCounter::Address(pair.address), |window| self.windows.uncount(window))?;
        }
        Self::known(pair, |window| self.windows.count(window, 1)).map(drop)
    }

    fn is_known(&self, pair: &LoginPair) -> Result<bool, StoreError> {
        Self::known(pair, |window| self.windows.is_open(window))
    }

    fn known<T>(pair: &LoginPair, act: impl FnOnce(&RateWindow<'_>) -> T) -> T {
        let owner = pair.owner();
        act(&RateWindow { name: "login known", owner: &owner, window_ms: KNOWN_MS, limit: u64::MAX })
    }

    fn with<T>(&self, counter: LoginCounter<'_>, act: impl FnOnce(&RateWindow<'_>) -> T) -> T {
        let (name, owner) = match counter {
            LoginCounter::Account(name) => ("login account", name.to_owned()),
            LoginCounter::Address(address) => ("login address", address.to_string()),
            LoginCounter::Pair(pair) => ("login pair", pair.owner()),
        };
        act(&RateWindow { name, owner: &owner, window_ms: self.window_ms, limit: self.most })
    }
}

/// A login in progress. Dropped without a result, it does not count: nobody has learned whether the password
/// was right.
#[must_use]
pub(crate) struct LoginAttempt<'t> {
    throttle: &'t LoginThrottle,
    pair: LoginPair,
    is_known: bool,
    is_checked: bool,
}

impl LoginAttempt<'_> {
    /// The password was checked.
    pub(crate) fn checked(mut self, is_right: bool) {
        self.is_checked = true;
        if is_right && let Err(error) = self.throttle.succeeded(&self.pair, self.is_known) {
            tracing::debug!(%error, "cannot forget the failed logins before a successful one");
        }
    }
}

impl Drop for LoginAttempt<'_> {
    fn drop(&mut self) {
        if self.is_checked {
            return;
        }
        if self.is_known {
            self.throttle.uncount(LoginCounter::Pair(&self.pair));
        } else {
            self.throttle.uncount_address(self.pair.address);
            self.throttle.uncount(LoginCounter::Account(&self.pair.name));
        }
    }
}

/// All spellings of a name count together.
fn key(name: &str) -> String {
    let start: String = name.trim().chars().take(NAME_CHARS).collect();
    lookup_name(&start).chars().take(NAME_CHARS).collect()
}

fn too_many(which: &str, retry_after_s: u64) -> ApiError {
    let message = format!("too many failed logins {which}, try again in {retry_after_s} seconds");
    ApiError::TooMany { message, retry_after_s }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::local_windows::{LocalWindows, OWNERS};
    use crate::http::request::peer::Peer;
    use crate::ports::{CancelToken, Clock};
    use hyper::HeaderMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    const MINUTE_MS: u64 = 60_000;

    #[derive(Default)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now_ms(&self) -> u64 {
            self.monotonic_ms()
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
        fn sleep(&self, _: &CancelToken, _: Duration) {}
    }

    struct TestThrottle {
        throttle: LoginThrottle,
        clock: Arc<SetClock>,
    }

    impl TestThrottle {
        fn attempt(
            &self,
            name: &str,
            from: ClientAddress,
            now_ms: u64,
        ) -> Result<LoginAttempt<'_>, ApiError> {
            self.clock.0.store(now_ms, Ordering::SeqCst);
            self.throttle.attempt(name, from)
        }
    }

    fn throttle() -> TestThrottle {
        let clock = Arc::new(SetClock::default());
        let limits = Limits { login_failures: 3, login_window_s: 60, ..Limits::default() };
        let windows = Arc::new(LocalWindows::new(Arc::<SetClock>::clone(&clock)));
        TestThrottle { throttle: LoginThrottle::new(&limits, windows), clock }
    }

    fn address(number: u8) -> ClientAddress {
        ClientAddress::of(Peer(Some([203, 0, 113, number].into())), &HeaderMap::new())
    }

    fn wait(result: Result<(), ApiError>) -> Option<u64> {
        match result {
            Ok(()) => None,
            Err(ApiError::TooMany { retry_after_s, .. }) => Some(retry_after_s),
            Err(other) => panic!("{other}"),
        }
    }

    /// An attempt with a wrong password.
    fn fail(throttle: &TestThrottle, name: &str, from: ClientAddress, now_ms: u64) -> Result<(), ApiError> {
        throttle.attempt(name, from, now_ms).map(|attempt| attempt.checked(false))
    }

    /// An attempt with the right one.
    fn succeed(throttle: &TestThrottle, name: &str, from: ClientAddress) {
        throttle.attempt(name, from, 0).expect("not limited yet").checked(true);
    }

    #[test]
    fn p9_logins_are_limited_per_address_for_any_usernames() {
        let throttle = throttle();
        for name in ["a1", "b1", "c1"] {
            assert_eq!(wait(fail(&throttle, name, address(1), 0)), None);
        }
        assert_eq!(wait(fail(&throttle, "d1", address(1), 15_000)), Some(45));
        assert_eq!(wait(fail(&throttle, "d1", address(2), 15_000)), None);
        assert_eq!(wait(fail(&throttle, "d1", address(1), MINUTE_MS)), None);
    }

    #[test]
    fn p9_logins_are_limited_per_account_from_any_address() {
        let throttle = throttle();
        for number in 1..=3 {
            assert_eq!(wait(fail(&throttle, " ANN", address(number), 0)), None);
        }
        assert_eq!(wait(fail(&throttle, "ann", address(4), 1_000)), Some(59));
        assert_eq!(wait(fail(&throttle, "ann", address(4), MINUTE_MS)), None, "never longer than the window");
    }

    #[test]
    fn p9_failures_of_others_do_not_lock_out_a_known_address() {
        let throttle = throttle();
        succeed(&throttle, "Ann", address(9));
        for number in 1..=4 {
            drop(fail(&throttle, "ann", address(number), 1));
        }
        assert!(wait(fail(&throttle, "ann", address(5), 2)).is_some());
        for _ in 0..3 {
            assert_eq!(wait(fail(&throttle, "ann", address(9), 2)), None);
        }
        assert!(
            wait(fail(&throttle, "ann", address(9), 2)).is_some(),
            "at home one guesses a few times as well"
        );
    }

    #[test]
    fn p9_failures_at_a_shared_address_do_not_lock_out_a_known_account() {
        let throttle = throttle();
        succeed(&throttle, "Ann", address(1));
        for name in ["b1", "c1", "d1", "e1"] {
            drop(fail(&throttle, name, address(1), 1));
        }
        assert!(wait(fail(&throttle, "f1", address(1), 2)).is_some());
        assert_eq!(wait(fail(&throttle, "ann", address(1), 2)), None);
        succeed(&throttle, "ann", address(1));
        assert!(wait(fail(&throttle, "f1", address(1), 3)).is_some(), "nor does that help who guesses");
    }

    #[test]
    fn p9_without_a_client_address_only_the_account_is_limited() {
        let throttle = throttle();
        for peer in [Peer(None), Peer(Some([127, 0, 0, 1].into()))] {
            let nobodys = ClientAddress::of(peer, &HeaderMap::new());
            for number in 0..20 {
                assert_eq!(wait(fail(&throttle, &format!("user{number}{peer:?}"), nobodys, 0)), None);
            }
            let name = format!("ann{peer:?}");
            succeed(&throttle, &name, nobodys);
            for _ in 0..3 {
                assert_eq!(wait(fail(&throttle, &name, nobodys, 0)), None);
            }
            assert!(wait(fail(&throttle, &name, nobodys, 0)).is_some(), "as often as anywhere else");
        }
    }

    #[test]
    fn p9_a_password_that_was_never_checked_is_no_failure() {
        let throttle = throttle();
        for _ in 0..20 {
            drop(throttle.attempt("ann", address(1), 0).expect("nothing was counted"));
        }
        let held: Vec<_> = (0..3).map(|_| throttle.attempt("ann", address(1), 0).expect("few")).collect();
        assert!(
            wait(fail(&throttle, "ann", address(1), 1)).is_some(),
            "parallel attempts do not pass the limit"
        );
        drop(held);
        // An attempt that the account's limit refuses does not count for the address either.
        for _ in 0..3 {
            assert_eq!(wait(fail(&throttle, "bob", address(2), 0)), None);
        }
        for _ in 0..20 {
            assert!(wait(fail(&throttle, "bob", address(1), 1)).is_some());
        }
        assert_eq!(wait(fail(&throttle, "ann", address(1), 1)), None);
    }

    #[test]
    fn p9_a_flood_of_names_neither_locks_others_out_nor_frees_a_locked_account() {
        let throttle = throttle();
        for _ in 0..3 {
            assert_eq!(wait(fail(&throttle, "ann", address(200), 0)), None);
        }
        // A proxy that reports no address: only accounts are counted.
        let nobodys = ClientAddress::of(Peer(None), &HeaderMap::new());
        for number in 0..2 * OWNERS {
            assert_eq!(wait(fail(&throttle, &format!("made-up-{number}"), nobodys, 1)), None, "{number}");
        }
        assert_eq!(wait(fail(&throttle, "bob", nobodys, 2)), None, "a full table locks nobody out");
        assert!(wait(fail(&throttle, "ann", nobodys, 2)).is_some(), "and frees nobody");
    }

    #[test]
    fn p9_all_spellings_of_a_name_count_together() {
        let throttle = throttle();
        for name in ["ann", "ＡＮＮ", "Ａnn"] {
            assert_eq!(wait(fail(&throttle, name, address(1), 0)), None);
        }
        assert!(wait(fail(&throttle, "ann", address(2), 1)).is_some());
    }

    #[test]
    fn a_successful_login_resets_the_counters() {
        let throttle = throttle();
        for _ in 0..20 {
            succeed(&throttle, "ann", address(1));
        }
    }

    #[test]
    fn p8_names_are_bounded() {
        assert_eq!(key(&"é".repeat(9_999)).chars().count(), NAME_CHARS);
    }
}
