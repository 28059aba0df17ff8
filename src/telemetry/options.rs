//! `otlp:` of the configuration.

use crate::domain::limits::NumberRange;
use crate::domain::secret::Secret;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use ureq::http::Uri;

/// The path of traces below the endpoint, as the specification of OTLP has it.
const TRACES_PATH: &str = "/v1/traces";

/// Headers that the exporter sets itself.
const OWN_HEADERS: [&str; 6] =
    ["content-type", "content-length", "content-encoding", "transfer-encoding", "host", "user-agent"];

/// Options of the export of spans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtlpOptions {
    /// Base address of the collector, to which `/v1/traces` is added; `None`: nothing is exported.
    pub endpoint: Option<String>,
    /// Headers of each request.
    pub headers: BTreeMap<String, Secret>,
    /// `service.name` of the spans.
    pub service_name: String,
    /// Whether spans hold prompts, answers, and arguments and results of tools.
    pub include_content: bool,
    /// Timeout of one request, seconds.
    pub timeout_s: u64,
}

impl Default for OtlpOptions {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: BTreeMap::new(),
            service_name: "nanoclaw".to_owned(),
            include_content: false,
            timeout_s: 10,
        }
    }
}

impl OtlpOptions {
    /// The ranges of its numbers.
    pub const RANGES: &'static [NumberRange] = &[("timeout_s", 1..=300)];

    /// Where spans are posted.
    pub fn traces_url(&self) -> Option<String> {
        let base = self.endpoint.as_deref()?;
        Some(format!("{}{TRACES_PATH}", base.trim_end_matches('/')))
    }

    /// What is not allowed: key, value and the allowed values.
    pub fn faults(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut faults = Vec::new();
        if let Some(endpoint) = &self.endpoint
            && let Err((shown, allowed)) = check_endpoint(endpoint)
        {
            faults.push(("endpoint", shown.to_owned(), allowed));
        }
        let mut names = BTreeSet::new();
        for (name, value) in &self.headers {
            if !names.insert(name.to_ascii_lowercase()) {
                faults.push(("headers", name.clone(), "is there twice"));
            }
            if let Some(allowed) = header_fault(name, value) {
                faults.push(("headers", name.clone(), allowed));
            }
        }
        if self.service_name.trim().is_empty() || self.service_name.chars().count() > 255 {
            faults.push(("service_name", self.service_name.clone(), "must be 1 to 255 characters"));
        }
        faults
    }
}

/// Checks the base address. An error has the part of it that may be shown.
fn check_endpoint(text: &str) -> Result<(), (&str, &'static str)> {
    if text.contains('@') {
        return Err(("…@…", "must hold neither user nor password: credentials belong into otlp.headers"));
    }
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    if shown.len() < text.len() {
        return Err((shown, "must have no query: credentials belong into otlp.headers"));
    }
    if shown.trim_end_matches('/').ends_with(TRACES_PATH) {
        return Err((
            shown,
            "must be the base address, such as http://127.0.0.1:4318: /v1/traces is added to it",
        ));
    }
    let is_url = text.parse::<Uri>().is_ok_and(|uri| {
        let has_host = uri.authority().is_some_and(|authority| {
            let (host, whole) = (authority.host(), authority.as_str());
            // A port that is no number is none to the parser.
            !host.is_empty() && (authority.port_u16().is_some_and(|port| port > 0) || whole == host)
        });
        has_host && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if is_url {
        Ok(())
    } else {
        Err((shown, "must be http:// or https:// and a host, with or without a port from 1 to 65535"))
    }
}

fn header_fault(name: &str, value: &Secret) -> Option<&'static str> {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Some("is no name of a header");
    }
    if OWN_HEADERS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Some("is a header that the export sets itself");
    }
    let is_visible = |byte: u8| byte == b'\t' || (b' '..=b'~').contains(&byte);
    (!value.reveal().bytes().all(is_visible))
        .then_some("has a value with other than visible ASCII characters")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(yaml: &str) -> Vec<String> {
        let options: OtlpOptions = serde_norway::from_str(yaml).expect("YAML");
        options.faults().into_iter().map(|(key, value, why)| format!("{key}: {value}: {why}")).collect()
    }

    #[test]
    fn the_path_of_traces_is_added_to_the_base() {
        for (endpoint, url) in [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("https://otel.test/", "https://otel.test/v1/traces"),
            ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
            ("http://[::1]", "http://[::1]/v1/traces"),
            ("https://otel.test/api/otlp", "https://otel.test/api/otlp/v1/traces"),
        ] {
            let options = OtlpOptions { endpoint: Some(endpoint.to_owned()), ..OtlpOptions::default() };
            assert!(options.faults().is_empty(), "{endpoint}");
            assert_eq!(options.traces_url().as_deref(), Some(url));
        }
        assert_eq!(OtlpOptions::default().traces_url(), None);
    }

    #[test]
    fn p9_bad_options_are_named_without_their_secrets() {
        for (yaml, wanted) in [
            ("{endpoint: 'otel.test:4318'}", "endpoint: otel.test:4318: must be http://"),
            ("{endpoint: 'ftp://otel.test'}", "endpoint: ftp://otel.test: must be http://"),
            ("{endpoint: 'http://u:s3cret@otel.test'}", "endpoint: …@…: must hold neither"),
            ("{endpoint: 'http://otel.test?key=s3cret'}", "endpoint: http://otel.test: must have no query"),
            (
                "{endpoint: 'http://otel.test/v1/traces'}",
                "endpoint: http://otel.test/v1/traces: must be the base",
            ),
            ("{endpoint: 'http://otel.test:99999'}", "endpoint: http://otel.test:99999: must be http"),
            ("{endpoint: 'http://[::1]:0'}", "endpoint: http://[::1]:0: must be http"),
            ("{headers: {a: s3cret, A: s3cret}}", "headers: a: is there twice"),
            ("{headers: {'a b': s3cret}}", "headers: a b: is no name"),
            ("{headers: {Content-Type: s3cret}}", "headers: Content-Type: is a header that"),
            ("{headers: {a: \"s3cret\\n\"}}", "headers: a: has a value"),
            ("{service_name: ' '}", "service_name:  : must be"),
        ] {
            let found = faults(yaml);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{yaml}: {found:?}");
            assert!(!found[0].contains("s3cret"), "{found:?}");
        }
    }
}
