//! Where a provider is reached. Owns the reading of `api_url`; refuses URLs that are not plain http(s) addresses.

use std::net::IpAddr;
use ureq::http::Uri;

/// A provider's chat endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    uri: Uri,
}

/// The path of the chat-completions endpoint below the API's base.
const CHAT: &str = "/chat/completions";

impl Endpoint {
    /// Reads a base (`…/v1`) or a full endpoint (`…/chat/completions`). A bare host means its `/v1`.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
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
        let path = match uri.path().trim_end_matches('/') {
            "" => format!("/v1{CHAT}"),
            full if full.ends_with(CHAT) => full.to_owned(),
            base => format!("{base}{CHAT}"),
        };
        let target = uri.query().map_or(path.clone(), |query| format!("{path}?{query}"));
        let mut parts = uri.into_parts();
        parts.path_and_query = Some(target.parse().map_err(|_| "its path is malformed")?);
        Ok(Self { uri: Uri::from_parts(parts).map_err(|_| "it is not a URL")? })
    }

    /// What `ureq` is asked for.
    pub(crate) fn uri(&self) -> &Uri {
        &self.uri
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_and_full_endpoint_mean_the_same() {
        for (given, reached) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/chat/completions"),
            ("https://api.deepseek.com/chat/completions", "https://api.deepseek.com/chat/completions"),
            ("https://api.openai.com", "https://api.openai.com/v1/chat/completions"),
            ("https://api.z.ai/api/paas/v4/", "https://api.z.ai/api/paas/v4/chat/completions"),
            ("https://x.test/openai?api-version=1", "https://x.test/openai/chat/completions?api-version=1"),
        ] {
            assert_eq!(Endpoint::parse(given).map(|e| e.uri.to_string()), Ok(reached.to_owned()), "{given}");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        for bad in
            ["", "api.openai.com/v1", "ftp://x/v1", "http:///v1", "https://u:p@x/v1", "file:///etc/passwd"]
        {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_known_by_name_and_by_number() {
        let local = |url: &str| Endpoint::parse(url).expect("parses").is_loopback();
        assert!(local("http://localhost:1/v1") && local("http://[::1]:1/v1") && local("http://127.3.2.1/v1"));
        assert!(!local("http://localhost.example.com/v1") && !local("http://10.0.0.1/v1"));
    }
}
