//! Limits failed logins by account and by address. An address from which an account has logged in before is
//! counted alone, so that failures of others do not lock its owner out.

use super::window_counter::WindowCounter;
use crate::domain::account::lookup_name;
use crate::domain::limits::Limits;
use crate::http::error::ApiError;
use crate::http::request::peer::ClientAddress;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Most accounts and addresses with a counter of their own.
const KEYS: usize = 16_384;
/// Most pairs of account and address that are remembered.
const KNOWN: usize = 4_096;
/// The longest account name, characters.
const NAME_CHARS: usize = 50;

/// Failed logins. An attempt counts as failed while its password is checked, so that parallel attempts do not
/// pass the limit. An attempt whose password was never checked does not count.
pub(crate) struct LoginThrottle {
    most: u64,
    accounts: WindowCounter<String>,
    addresses: WindowCounter<ClientAddress>,
    /// Counters of the pairs in `known`.
    pairs: WindowCounter<(String, ClientAddress)>,
    known: Mutex<KnownLogins>,
}

/// Addresses from which accounts have logged in. Failures from elsewhere do not lock these out. The oldest
/// are dropped first.
#[derive(Default)]
struct KnownLogins {
    pairs: HashSet<(String, ClientAddress)>,
    order: VecDeque<(String, ClientAddress)>,
}

impl LoginThrottle {
    pub(crate) fn new(limits: &Limits) -> Self {
        let window_ms = limits.login_window_s.saturating_mul(1_000);
        Self {
            most: u64::from(limits.login_failures.max(1)),
            accounts: WindowCounter::new(window_ms, KEYS),
            addresses: WindowCounter::new(window_ms, KEYS),
            pairs: WindowCounter::new(window_ms, KNOWN),
            known: Mutex::default(),
        }
    }

    /// Counts an attempt for this name, whether or not the account exists. Fails when a limit is reached;
    /// then nothing is counted.
    pub(crate) fn attempt(
        &self,
        name: &str,
        address: ClientAddress,
        now_ms: u64,
    ) -> Result<LoginAttempt<'_>, ApiError> {
        let pair = (key(name), address);
        let is_known = self.lock_known(|known| known.pairs.contains(&pair));
        if is_known {
            let counted = self.pairs.try_add(pair.clone(), now_ms, self.most);
            counted.map_err(|full| too_many("to this account", full.left_s()))?;
        } else {
            self.count_unknown(&pair, now_ms)?;
        }
        Ok(LoginAttempt { throttle: self, pair, is_known, is_checked: false })
    }

    fn count_unknown(&self, (name, address): &(String, ClientAddress), now_ms: u64) -> Result<(), ApiError> {
        if address.is_own() {
            let counted = self.addresses.try_add(*address, now_ms, self.most);
            counted.map_err(|full| too_many("from your address", full.left_s()))?;
        }
        self.accounts.try_add(name.clone(), now_ms, self.most).map_err(|full| {
            self.uncount_address(*address);
            too_many("to this account", full.left_s())
        })
    }

    fn uncount_address(&self, address: ClientAddress) {
        if address.is_own() {
            self.addresses.uncount(&address);
        }
    }

    fn succeeded(&self, (name, address): (String, ClientAddress)) {
        self.accounts.forget(&name);
        // Behind a proxy that reports no address all clients look the same.
        if !address.is_own() {
            return;
        }
        let pair = (name, address);
        self.pairs.forget(&pair);
        self.lock_known(|known| {
            if known.pairs.insert(pair.clone()) {
                // The pair was new, so the attempt was counted for the address.
                self.addresses.uncount(&address);
                known.order.push_back(pair);
            }
            if known.order.len() > KNOWN
                && let Some(oldest) = known.order.pop_front()
            {
                known.pairs.remove(&oldest);
            }
        });
    }

    fn lock_known<T>(&self, act: impl FnOnce(&mut KnownLogins) -> T) -> T {
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A login in progress. Dropped without a result, it does not count: nobody has learned whether the password
/// was right.
#[must_use]
pub(crate) struct LoginAttempt<'t> {
    throttle: &'t LoginThrottle,
    pair: (String, ClientAddress),
    is_known: bool,
    is_checked: bool,
}

impl LoginAttempt<'_> {
    /// The password was checked.
    pub(crate) fn checked(mut self, is_right: bool) {
        self.is_checked = true;
        if is_right {
            self.throttle.succeeded(self.pair.clone());
        }
    }
}

impl Drop for LoginAttempt<'_> {
    fn drop(&mut self) {
        if self.is_checked {
            return;
        }
        if self.is_known {
            self.throttle.pairs.uncount(&self.pair);
        } else {
            self.throttle.uncount_address(self.pair.1);
            self.throttle.accounts.uncount(&self.pair.0);
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
    use crate::http::request::peer::Peer;
    use hyper::HeaderMap;

    const MINUTE_MS: u64 = 60_000;

    fn throttle() -> LoginThrottle {
        LoginThrottle::new(&Limits { login_failures: 3, login_window_s: 60, ..Limits::default() })
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
    fn fail(throttle: &LoginThrottle, name: &str, from: ClientAddress, now_ms: u64) -> Result<(), ApiError> {
        throttle.attempt(name, from, now_ms).map(|attempt| attempt.checked(false))
    }

    /// An attempt with the right one.
    fn succeed(throttle: &LoginThrottle, name: &str, from: ClientAddress) {
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
        for number in 0..2 * KEYS {
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
    fn p8_remembered_account_and_address_pairs_are_bounded() {
        let throttle = throttle();
        for number in 0..KNOWN + 10 {
            throttle.succeeded((format!("user{number}"), address(1)));
        }
        let sizes = throttle.lock_known(|known| (known.pairs.len(), known.order.len()));
        assert_eq!(sizes, (KNOWN, KNOWN));
        assert_eq!(key(&"é".repeat(9_999)).chars().count(), NAME_CHARS);
    }
}
