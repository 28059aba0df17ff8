//! Parses `api_url` into the endpoint of a dialect.

use std::net::IpAddr;
use ureq::http::Uri;

/// A provider's chat endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    uri: Uri,
}

/// The path of a dialect below the API's base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndpointPath {
    /// The path below the version.
    pub(crate) path: &'static str,
    /// Whether `/v1` is added to every base without a version; else only to a bare host.
    pub(crate) versioned: bool,
}

/// Chat completions.
pub(crate) const CHAT: EndpointPath = EndpointPath { path: "/chat/completions", versioned: false };
/// Messages.
pub(crate) const MESSAGES: EndpointPath = EndpointPath { path: "/messages", versioned: true };

impl Endpoint {
    /// Parses a base (`…/v1`) or a full endpoint (`…/chat/completions`). A bare host gets `/v1`.
    pub(crate) fn parse(text: &str, path: EndpointPath) -> Result<Self, &'static str> {
        let uri: Uri = text.trim().parse().map_err(|_| "it is not a URL")?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("it must begin with http:// or https://");
        }
        let authority = uri.authority().ok_or("it names no host")?;
        if authority.host().is_empty() {
            return Err("it names no host");
        }
        if authority.as_str().contains('@') {
            return Err("user and password belong into api_key, not into the URL");
        }
        let path = path.below(uri.path().trim_end_matches('/'));
        let target = uri.query().map_or(path.clone(), |query| format!("{path}?{query}"));
        let mut parts = uri.into_parts();
        parts.path_and_query = Some(target.parse().map_err(|_| "its path is malformed")?);
        Ok(Self { uri: Uri::from_parts(parts).map_err(|_| "it is not a URL")? })
    }

    /// The request URI.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The URI of another path of the same API; `None` if the endpoint does not end in its own path.
    pub(crate) fn beside(&self, own: EndpointPath, path: &str) -> Option<Uri> {
        let base = self.uri.path().strip_suffix(own.path)?;
        let target = match self.uri.query() {
            Some(query) => format!("{base}{path}?{query}"),
            None => format!("{base}{path}"),
        };
        let mut parts = self.uri.clone().into_parts();
        parts.path_and_query = Some(target.parse().ok()?);
        Uri::from_parts(parts).ok()
    }

    /// The values in the query, which may be keys.
    pub(crate) fn query_values(&self) -> impl Iterator<Item = &str> {
        let pairs = self.uri.query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=').map(|(_, value)| value))
    }

    /// The host without brackets, as written.
    pub(crate) fn host(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Whether the provider runs on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host();
        host == "localhost"
            || host.ends_with(".localhost")
            || host.parse::<IpAddr>().is_ok_and(|a| a.is_loopback())
    }
}

impl EndpointPath {
    fn below(self, base: &str) -> String {
        let Self { path, versioned } = self;
        if base.ends_with(path) {
            return base.to_owned();
        }
        let unversioned = if versioned { !ends_with_version(base) } else { base.is_empty() };
        let version = if unversioned { "/v1" } else { "" };
        format!("{base}{version}{path}")
    }
}

/// `…/v1`, `…/v4`.
fn ends_with_version(base: &str) -> bool {
    let last = base.rsplit('/').next().unwrap_or_default();
    last.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_and_a_full_endpoint_are_equivalent() {
        for (given, reached) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
            ("https://api.deepseek.com/chat/completions", "https://api.deepseek.com/chat/completions"),
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            ("https://api.z.ai/api/paas/v4/", "https://api.z.ai/api/paas/v4/chat/completions"),
            ("https://x.test/openai?api-version=1", "https://x.test/openai/chat/completions?api-version=1"),
        ] {
            let endpoint = Endpoint::parse(given, CHAT).map(|e| e.uri.to_string());
            assert_eq!(endpoint, Ok(reached.to_owned()), "{given}");
        }
    }

    #[test]
    fn another_path_of_the_api_keeps_base_and_query() {
        for (given, reached) in [
            ("https://api.openai.com", "https://api.openai.com/v1/embeddings"),
            ("https://x.test/a/chat/completions?api-version=1", "https://x.test/a/embeddings?api-version=1"),
        ] {
            let beside = Endpoint::parse(given, CHAT).expect("parses").beside(CHAT, "/embeddings");
            assert_eq!(beside.map(|uri| uri.to_string()).as_deref(), Some(reached), "{given}");
        }
    }

    #[test]
    fn the_messages_endpoint_is_below_a_version() {
        for (given, reached) in [
            ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
            ("https://api.anthropic.com/v1/messages", "https://api.anthropic.com/v1/messages"),
            ("https://api.z.ai/api/anthropic", "https://api.z.ai/api/anthropic/v1/messages"),
            ("https://x.test/vertex?beta=true", "https://x.test/vertex/v1/messages?beta=true"),
        ] {
            let endpoint = Endpoint::parse(given, MESSAGES).map(|e| e.uri.to_string());
            assert_eq!(endpoint, Ok(reached.to_owned()), "{given}");
        }
    }

    #[test]
    fn invalid_endpoint_urls_are_refused() {
        for bad in
            ["", "api.openai.com/v1", "ftp://x/v1", "http:///v1", "https://u:p@x/v1", "file:///etc/passwd"]
        {
            assert!(Endpoint::parse(bad, CHAT).is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_recognized_by_name_and_by_address() {
        let local = |url: &str| Endpoint::parse(url, CHAT).expect("parses").is_loopback();
        assert!(local("http://localhost:1/v1") && local("http://[::1]:1/v1") && local("http://127.3.2.1/v1"));
        assert!(!local("http://localhost.example.com/v1") && !local("http://10.0.0.1/v1"));
    }
}
