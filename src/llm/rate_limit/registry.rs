//! The limiters of all providers. Models with the same address and key are one provider account and share a
//! limiter.

use super::limiter::RateLimiter;
use crate::domain::hex::hex;
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::llm::options::RateOptions;
use crate::ports::{Measurement, Meter, ProviderCluster};
use sha2::{Digest, Sha256};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use ureq::http::Uri;

/// The limiter of one provider account.
#[derive(Debug)]
pub(in crate::llm) struct ProviderLimiter {
    /// The provider's name in metrics, without key and path.
    name: String,
    /// The longest wait in place.
    pub(super) max_wait: Duration,
    state: Mutex<RateLimiter>,
    /// The account, for the other nodes: a digest.
    account: String,
    cluster: OnceLock<Arc<dyn ProviderCluster>>,
}

impl ProviderLimiter {
    /// Shares rates and pauses with the other nodes from now on.
    pub(in crate::llm) fn join_cluster(&self, cluster: &Arc<dyn ProviderCluster>) {
        self.cluster.get_or_init(|| Arc::clone(cluster));
    }

    /// The state, with what is known of the other nodes.
    pub(super) fn lock_at(&self, now_ms: u64) -> MutexGuard<'_, RateLimiter> {
        let mut state = self.lock();
        if let Some(cluster) = self.cluster.get() {
            state.join_cluster(now_ms, cluster.share(), cluster.pause_left_ms(&self.account));
        }
        state
    }

    /// The provider asked for a pause.
    pub(super) fn tell_pause(&self, pause_ms: u64) {
        if let Some(cluster) = self.cluster.get() {
            cluster.pause(&self.account, pause_ms);
        }
    }

    /// Records the circuit's state, under the lock so that the last record is the newest.
    pub(in crate::llm) fn record_state(&self, meter: &dyn Meter) {
        let limiter = self.lock();
        meter.record(Measurement::Circuit { provider: &self.name, state: limiter.circuit() });
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, RateLimiter> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An account at a provider.
#[derive(Debug, PartialEq, Eq)]
struct ProviderAccount {
    scheme: String,
    /// The host, and the port if it is not the default.
    place: String,
    key: Secret,
}

impl ProviderAccount {
    fn of(url: &str, key: &Secret) -> Self {
        // An invalid URL is refused elsewhere.
        let uri: Uri = url.trim().parse().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        let default_port = if scheme == "https" { 443 } else { 80 };
        let port = uri.port_u16().filter(|port| *port != default_port);
        let place = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        Self { scheme, place, key: Secret::from(key.reveal().trim().to_owned()) }
    }

    /// Names the account without its key.
    fn digest(&self) -> String {
        hex(&Sha256::digest(format!("{} {} {}", self.scheme, self.place, self.key.reveal())))
    }
}

/// The limiters of all providers.
#[derive(Debug)]
pub(in crate::llm) struct LimiterRegistry<'a> {
    limits: &'a Limits,
    limiters: Vec<(ProviderAccount, Arc<ProviderLimiter>)>,
}

impl<'a> LimiterRegistry<'a> {
    /// A registry without limiters. `limits` has the longest wait and the settings of the circuit breaker.
    pub(in crate::llm) fn new(limits: &'a Limits) -> Self {
        Self { limits, limiters: Vec::new() }
    }

    /// The limiter of this address and key. The strictest of all rates that are given for it counts.
    pub(in crate::llm) fn limiter(
        &mut self,
        url: &str,
        key: &Secret,
        rate: &RateOptions,
    ) -> Arc<ProviderLimiter> {
        let account = ProviderAccount::of(url, key);
        let known = self.limiters.iter().find(|(known, _)| *known == account);
        let limiter = match known {
            Some((_, limiter)) => Arc::clone(limiter),
            None => self.add(account),
        };
        limiter.lock().tighten(rate);
        limiter
    }

    /// Adds a limiter. Further accounts of a host get the names `…#2`, `…#3` …
    fn add(&mut self, account: ProviderAccount) -> Arc<ProviderLimiter> {
        let others = self.limiters.iter().filter(|(known, _)| known.place == account.place).count();
        let name = match others {
            0 => account.place.clone(),
            others => format!("{}#{}", account.place, others.saturating_add(1)),
        };
        let max_wait = Duration::from_secs(self.limits.model_wait_s);
        let state = Mutex::new(RateLimiter::new(self.limits));
        let (account_digest, cluster) = (account.digest(), OnceLock::new());
        let limiter = Arc::new(ProviderLimiter { name, max_wait, state, account: account_digest, cluster });
        self.limiters.push((account, Arc::clone(&limiter)));
        limiter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_one_origin_and_key_share_a_gate() {
        let limits = Limits::default();
        let mut registry = LimiterRegistry::new(&limits);
        let mut limiter = |url: &str, key: &str| {
            registry.limiter(url, &Secret::from(key.to_owned()), &RateOptions::default())
        };
        let first = limiter("https://API.x.test/v1", "k");
        for (url, key, same) in [
            ("https://api.x.test:443/v1/chat/completions", " k\n", true),
            ("https://api.x.test/anthropic", "k", true),
            ("https://api.x.test/v1", "other", false),
            ("http://api.x.test/v1", "k", false),
            ("https://api.x.test:8443/v1", "k", false),
            ("https://x.test/v1", "k", false),
        ] {
            assert_eq!(Arc::ptr_eq(&first, &limiter(url, key)), same, "{url} {key}");
        }
    }

    #[test]
    fn provider_names_contain_no_keys() {
        let limits = Limits::default();
        let mut registry = LimiterRegistry::new(&limits);
        for (url, key, name) in [
            ("https://API.x.test/v1", "k", "api.x.test"),
            ("https://api.x.test/v1", "other", "api.x.test#2"),
            ("https://api.x.test/v2", "k", "api.x.test"),
            ("https://me:topsecret@api.x.test/v1", "third", "api.x.test#3"),
            ("http://127.0.0.1:8080/v1", "", "127.0.0.1:8080"),
        ] {
            let limiter = registry.limiter(url, &Secret::from(key.to_owned()), &RateOptions::default());
            assert_eq!(limiter.name, name, "{url}");
        }
    }

    #[test]
    fn p9_debug_output_of_gates_hides_keys() {
        let limits = Limits::default();
        let mut registry = LimiterRegistry::new(&limits);
        registry.limiter("https://x.test", &Secret::from("topsecret".to_owned()), &RateOptions::default());
        assert!(!format!("{registry:?}").contains("topsecret"));
    }
}
