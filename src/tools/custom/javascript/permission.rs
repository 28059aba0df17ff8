//! The permissions of a tool file: hosts and files. An address that two parsers could read differently is
//! refused.

use crate::tools::custom::options::BadTool;
use serde::Deserialize;

/// `permissions: {fetch: [hosts], files: "read" | "write"}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolPermissions {
    /// Hosts that may be fetched: `api.example.org`, `*.example.org`, and `http://…` before it for plain
    /// HTTP.
    #[serde(default)]
    pub(super) fetch: Vec<String>,
    /// The allowed use of the project's files.
    #[serde(default)]
    pub(super) files: FilePermission,
}

/// The allowed use of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum FilePermission {
    #[default]
    None,
    Read,
    /// Read and write.
    Write,
}

impl ToolPermissions {
    /// The first invalid permission.
    pub(super) fn fault(&self) -> Option<BadTool> {
        let invalid = self.fetch.iter().find(|host| HostPattern::of(host).is_none())?;
        Some(BadTool {
            key: "permissions.fetch",
            allowed: format!(
                "must list hosts, as in api.example.org, *.example.org or http://localhost:8080: '{invalid}'"
            ),
        })
    }

    /// Whether the address may be fetched. The error is for the author of the tool.
    pub(super) fn allow_fetch(&self, url: &str) -> Result<(), String> {
        let address = FetchAddress::of(url).ok_or_else(|| {
            "fetch takes an address like https://api.example.org/path, without user, spaces and backslashes".to_owned()
        })?;
        let patterns = self.fetch.iter().filter_map(|text| HostPattern::of(text));
        if patterns.into_iter().any(|pattern| pattern.matches(&address)) {
            return Ok(());
        }
        Err(format!("permissions.fetch of this tool does not list '{}'", address.display()))
    }
}

/// Scheme, host and port of an address.
#[derive(Debug, PartialEq, Eq)]
struct FetchAddress {
    is_http: bool,
    host: String,
    port: Option<u16>,
}

impl FetchAddress {
    fn of(url: &str) -> Option<Self> {
        if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_http = match scheme.to_ascii_lowercase().as_str() {
            "https" => false,
            "http" => true,
            _ => return None,
        };
        let authority = rest.split(['/', '?', '#']).next()?;
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port.parse().ok()?)),
            None => (authority, None),
        };
        let is_name = !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        (is_name && !host.is_empty()).then_some(Self { is_http, host, port })
    }

    fn effective_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_http { 80 } else { 443 })
    }

    fn display(&self) -> String {
        let scheme = if self.is_http { "http://" } else { "" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}{}{port}", self.host)
    }
}

/// A host in `fetch`.
struct HostPattern {
    includes_subdomains: bool,
    address: FetchAddress,
}

impl HostPattern {
    fn of(text: &str) -> Option<Self> {
        let (scheme, host) = text.split_once("://").unwrap_or(("https", text));
        let (includes_subdomains, host) = match host.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, host),
        };
        let has_no_path = !host.contains(['/', '?', '#']);
        FetchAddress::of(&format!("{scheme}://{host}"))
            .filter(|_| has_no_path)
            .map(|address| Self { includes_subdomains, address })
    }

    fn matches(&self, address: &FetchAddress) -> bool {
        let is_host = if self.includes_subdomains {
            address.host.strip_suffix(self.address.host.as_str()).is_some_and(|prefix| prefix.ends_with('.'))
        } else {
            address.host == self.address.host
        };
        // A permission for plain HTTP includes HTTPS.
        let is_scheme = self.address.is_http || !address.is_http;
        let is_port = match self.address.port {
            Some(port) => address.effective_port() == port,
            None => address.port.is_none() || matches!(address.effective_port(), 80 | 443),
        };
        is_host && is_scheme && is_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_allowed(fetch: &[&str], url: &str) -> bool {
        let fetch = fetch.iter().map(|&host| host.to_owned()).collect();
        let permissions = ToolPermissions { fetch, files: FilePermission::None };
        assert_eq!(permissions.fault(), None);
        permissions.allow_fetch(url).is_ok()
    }

    #[test]
    fn a_host_permits_only_itself_and_a_star_its_subdomains() {
        assert!(is_allowed(&["api.example.org"], "https://api.example.org/x?y#z"));
        assert!(is_allowed(&["api.example.org"], "HTTPS://API.EXAMPLE.ORG.:443/"));
        assert!(is_allowed(&["*.example.org"], "https://a.b.example.org"));
        assert!(is_allowed(&["http://localhost:8080"], "http://localhost:8080/a"));
        for url in [
            "http://api.example.org/",
            "https://api.example.org:8443/",
            "https://api.example.org.evil.org/",
            "https://evil.org/api.example.org",
            "https://evil.org?api.example.org",
            "https://evil.org#api.example.org",
            "https://api.example.org@evil.org/",
            "https://evil.org\\.api.example.org/",
            "https://evil.org%2f.api.example.org/",
            "https:api.example.org",
            "//api.example.org/",
            "ftp://api.example.org/",
            "https://api.example.org\t.evil.org/",
            "https://xapi.example.org/",
        ] {
            assert!(!is_allowed(&["api.example.org"], url), "{url}");
        }
        assert!(!is_allowed(&["*.example.org"], "https://example.org/"));
        assert!(!is_allowed(&["*.example.org"], "https://badexample.org/"));
        assert!(!is_allowed(&[], "https://example.org/"));
        assert!(!is_allowed(&["http://localhost:8080"], "http://localhost:8081/"));
    }

    #[test]
    fn an_invalid_host_permission_is_refused() {
        for invalid in ["", "*", "*.", "a b", "https://a/path", "a@b", "ftp://a", "a:b"] {
            let permissions =
                ToolPermissions { fetch: vec![invalid.to_owned()], files: FilePermission::None };
            assert!(permissions.fault().is_some(), "{invalid}");
        }
    }
}
