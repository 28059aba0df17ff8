//! Finds the limiter of a model: the same address and the same key are one provider.

use super::provider::ProviderLimiter;
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::llm::options::RateOptions;
use std::collections::HashMap;
use std::sync::Arc;
use ureq::http::Uri;

/// The limiters of all providers.
#[derive(Debug)]
pub(in crate::llm) struct LimiterRegistry<'a> {
    limits: &'a Limits,
    registry: HashMap<ProviderAccount, Arc<ProviderLimiter>>,
}

/// An account at a provider. `Debug` hides the key.
#[derive(PartialEq, Eq, Hash)]
struct ProviderAccount {
    scheme: String,
    host: String,
    port: u16,
    key: String,
}

impl std::fmt::Debug for ProviderAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl<'a> LimiterRegistry<'a> {
    /// A registry without limiters. `limits` has the longest wait and the circuit breaker's settings.
    pub(in crate::llm) fn new(limits: &'a Limits) -> Self {
        Self { limits, registry: HashMap::new() }
    }

    /// The limiter of this address and key. The strictest of all rates that are given for it counts.
    pub(in crate::llm) fn limiter(
        &mut self,
        url: &str,
        key: &Secret,
        rate: &RateOptions,
    ) -> Arc<ProviderLimiter> {
        let account = ProviderAccount::of(url, key);
        let name = self.name(&account);
        let limiter =
            self.registry.entry(account).or_insert_with(|| Arc::new(ProviderLimiter::new(name, self.limits)));
        limiter.lock().tighten(rate);
        Arc::clone(limiter)
    }

    /// The host, and the port if it is not the default; further keys get `#2`, `#3` …
    fn name(&self, account: &ProviderAccount) -> String {
        let place = account.place();
        match self.registry.keys().filter(|known| known.place() == place).count() {
            0 => place,
            before => format!("{place}#{}", before.saturating_add(1)),
        }
    }
}

impl ProviderAccount {
    fn place(&self) -> String {
        match (self.scheme.as_str(), self.port) {
            ("https", 443) | ("http", 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    fn of(url: &str, key: &Secret) -> Self {
        // An invalid URL is refused elsewhere.
        let uri: Uri = url.trim().parse().unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
        let usual = if scheme == "https" { 443 } else { 80 };
        Self {
            host: uri.host().unwrap_or_default().to_ascii_lowercase(),
            port: uri.port_u16().unwrap_or(usual),
            key: key.reveal().trim().to_owned(),
            scheme,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_key_are_one_provider() {
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
    fn providers_have_names_without_keys() {
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
    fn p9_no_key_is_printed() {
        let limits = Limits::default();
        let mut registry = LimiterRegistry::new(&limits);
        registry.limiter("https://x.test", &Secret::from("topsecret".to_owned()), &RateOptions::default());
        assert!(!format!("{registry:?}").contains("topsecret"));
    }
}
