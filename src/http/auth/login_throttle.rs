//! Limits failed logins by account and by address. An address from which an account has logged in before is
//! counted alone, so that failures of others do not lock its owner out.

use super::window_counter::WindowCounter;
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

/// Failed logins. An attempt counts as failed until it has succeeded, so that parallel attempts do not pass
/// the limit.
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

    /// Counts an attempt for this name, whether or not the account exists. Fails when a limit is passed.
    pub(crate) fn attempt(&self, name: &str, address: ClientAddress, now_ms: u64) -> Result<(), ApiError> {
        let name = key(name);
        let pair = (name.clone(), address);
        if self.lock_known(|known| known.pairs.contains(&pair)) {
            let of_pair = self.pairs.add(pair, now_ms);
            let is_few = of_pair.count <= self.most;
            return is_few.then_some(()).ok_or_else(|| too_many("to this account", of_pair.left_s()));
        }
        if address.is_own() {
            let here = self.addresses.add(address, now_ms);
            if here.count > self.most {
                return Err(too_many("from your address", here.left_s()));
            }
        }
        let of_account = self.accounts.add(name, now_ms);
        if of_account.count > self.most {
            return Err(too_many("to this account", of_account.left_s()));
        }
        Ok(())
    }

    /// The attempt succeeded.
    pub(crate) fn succeeded(&self, name: &str, address: ClientAddress) {
        let name = key(name);
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

fn key(name: &str) -> String {
    name.trim().chars().take(NAME_CHARS).collect::<String>().to_lowercase()
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

    #[test]
    fn p9_logins_are_limited_per_address_for_any_usernames() {
        let throttle = throttle();
        for name in ["a1", "b1", "c1"] {
            assert_eq!(wait(throttle.attempt(name, address(1), 0)), None);
        }
        assert_eq!(wait(throttle.attempt("d1", address(1), 15_000)), Some(45));
        assert_eq!(wait(throttle.attempt("d1", address(2), 15_000)), None);
        assert_eq!(wait(throttle.attempt("d1", address(1), MINUTE_MS)), None);
    }

    #[test]
    fn p9_logins_are_limited_per_account_from_any_address() {
        let throttle = throttle();
        for number in 1..=3 {
            assert_eq!(wait(throttle.attempt(" ANN", address(number), 0)), None);
        }
        assert_eq!(wait(throttle.attempt("ann", address(4), 1_000)), Some(59));
        assert_eq!(
            wait(throttle.attempt("ann", address(4), MINUTE_MS)),
            None,
            "never longer than the window"
        );
    }

    #[test]
    fn p9_failures_of_others_do_not_lock_out_a_known_address() {
        let throttle = throttle();
        throttle.attempt("ann", address(9), 0).expect("the first");
        throttle.succeeded("Ann", address(9));
        for number in 1..=4 {
            drop(throttle.attempt("ann", address(number), 1));
        }
        assert!(wait(throttle.attempt("ann", address(5), 2)).is_some());
        for _ in 0..3 {
            assert_eq!(wait(throttle.attempt("ann", address(9), 2)), None);
        }
        assert!(
            wait(throttle.attempt("ann", address(9), 2)).is_some(),
            "at home one guesses a few times as well"
        );
    }

    #[test]
    fn p9_failures_at_a_shared_address_do_not_lock_out_a_known_account() {
        let throttle = throttle();
        throttle.attempt("ann", address(1), 0).expect("the first");
        throttle.succeeded("ann", address(1));
        for name in ["b1", "c1", "d1", "e1"] {
            drop(throttle.attempt(name, address(1), 1));
        }
        assert!(wait(throttle.attempt("f1", address(1), 2)).is_some());
        assert_eq!(wait(throttle.attempt("ann", address(1), 2)), None);
        throttle.succeeded("ann", address(1));
        assert!(wait(throttle.attempt("f1", address(1), 3)).is_some(), "nor does that help who guesses");
    }

    #[test]
    fn p9_without_a_client_address_only_the_account_is_limited() {
        let throttle = throttle();
        for peer in [Peer(None), Peer(Some([127, 0, 0, 1].into()))] {
            let nobodys = ClientAddress::of(peer, &HeaderMap::new());
            for number in 0..20 {
                assert_eq!(wait(throttle.attempt(&format!("user{number}{peer:?}"), nobodys, 0)), None);
            }
            let name = format!("ann{peer:?}");
            throttle.attempt(&name, nobodys, 0).expect("the first");
            throttle.succeeded(&name, nobodys);
            for _ in 0..3 {
                assert_eq!(wait(throttle.attempt(&name, nobodys, 0)), None);
            }
            assert!(wait(throttle.attempt(&name, nobodys, 0)).is_some(), "as often as anywhere else");
        }
    }

    #[test]
    fn a_successful_login_resets_the_counters() {
        let throttle = throttle();
        for _ in 0..20 {
            assert_eq!(wait(throttle.attempt("ann", address(1), 0)), None);
            throttle.succeeded("ann", address(1));
        }
    }

    #[test]
    fn p8_remembered_account_and_address_pairs_are_bounded() {
        let throttle = throttle();
        for number in 0..KNOWN + 10 {
            throttle.succeeded(&format!("user{number}"), address(1));
        }
        let sizes = throttle.lock_known(|known| (known.pairs.len(), known.order.len()));
        assert_eq!(sizes, (KNOWN, KNOWN));
        assert_eq!(key(&"é".repeat(9_999)).chars().count(), NAME_CHARS);
    }
}
