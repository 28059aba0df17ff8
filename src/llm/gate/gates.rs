//! Which models share a gate. Owns the one rule: the same address and the same key are one provider.

use super::Gate;
use crate::domain::limits::Limits;
use crate::domain::secret::Secret;
use crate::llm::options::RateOptions;
use std::collections::HashMap;
use std::sync::Arc;
use ureq::http::Uri;

/// The gates of all providers.
#[derive(Debug)]
pub(in crate::llm) struct Gates<'a> {
    limits: &'a Limits,
    gates: HashMap<Account, Arc<Gate>>,
}

/// Whom a provider's bounds are for. It holds the key: no `Debug` of its own.
#[derive(PartialEq, Eq, Hash)]
struct Account {
    scheme: String,
    host: String,
    port: u16,
    key: String,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl<'a> Gates<'a> {
    /// None yet. Of `limits` the wait and the circuit breaker's.
    pub(in crate::llm) fn new(limits: &'a Limits) -> Self {
        Self { limits, gates: HashMap::new() }
    }

    /// The gate of this address and key; the strictest of all bounds that are given for it holds.
    pub(in crate::llm) fn gate(&mut self, url: &str, key: &Secret, rate: &RateOptions) -> Arc<Gate> {
        let account = Account::of(url, key);
        let name = self.name(&account);
        let gate = self.gates.entry(account).or_insert_with(|| Arc::new(Gate::new(name, self.limits)));
        gate.lock().tighten(rate);
        Arc::clone(gate)
    }

    /// Host, and port where it is an unusual one; of other keys there, `#2`, `#3` …
    fn name(&self, account: &Account) -> String {
        let place = account.place();
        match self.gates.keys().filter(|known| known.place() == place).count() {
            0 => place,
            before => format!("{place}#{}", before.saturating_add(1)),
        }
    }
}

impl Account {
    fn place(&self) -> String {
        match (self.scheme.as_str(), self.port) {
            ("https", 443) | ("http", 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        }
    }

    fn of(url: &str, key: &Secret) -> Self {
        // What is no URL is refused elsewhere.
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
        let mut gates = Gates::new(&limits);
        let mut gate =
            |url: &str, key: &str| gates.gate(url, &Secret::from(key.to_owned()), &RateOptions::default());
        let first = gate("https://API.x.test/v1", "k");
        for (url, key, same) in [
            ("https://api.x.test:443/v1/chat/completions", " k\n", true),
            ("https://api.x.test/anthropic", "k", true),
            ("https://api.x.test/v1", "other", false),
            ("http://api.x.test/v1", "k", false),
            ("https://api.x.test:8443/v1", "k", false),
            ("https://x.test/v1", "k", false),
        ] {
            assert_eq!(Arc::ptr_eq(&first, &gate(url, key)), same, "{url} {key}");
        }
    }

    #[test]
    fn providers_have_names_without_keys() {
        let limits = Limits::default();
        let mut gates = Gates::new(&limits);
        for (url, key, name) in [
            ("https://API.x.test/v1", "k", "api.x.test"),
            ("https://api.x.test/v1", "other", "api.x.test#2"),
            ("https://api.x.test/v2", "k", "api.x.test"),
            ("https://me:topsecret@api.x.test/v1", "third", "api.x.test#3"),
            ("http://127.0.0.1:8080/v1", "", "127.0.0.1:8080"),
        ] {
            let gate = gates.gate(url, &Secret::from(key.to_owned()), &RateOptions::default());
            assert_eq!(gate.name, name, "{url}");
        }
    }

    #[test]
    fn p9_no_key_is_printed() {
        let limits = Limits::default();
        let mut gates = Gates::new(&limits);
        gates.gate("https://x.test", &Secret::from("topsecret".to_owned()), &RateOptions::default());
        assert!(!format!("{gates:?}").contains("topsecret"));
    }
}
