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
        let wrong = self.fetch.iter().find(|host| HostPattern::of(host).is_none())?;
        Some(BadTool {
            key: "permissions.fetch",
            allowed: format!(
                "must list hosts, as in api.example.org, *.example.org or http://localhost:8080: '{wrong}'"
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
        Err(format!("permissions.fetch of this tool does not list '{}'", address.shown()))
    }
}

/// Scheme, host and port of an address.
#[derive(Debug, PartialEq, Eq)]
struct FetchAddress {
    is_plain: bool,
    host: String,
    port: Option<u16>,
}

impl FetchAddress {
    fn of(url: &str) -> Option<Self> {
        if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let is_plain = match scheme.to_ascii_lowercase().as_str() {
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
        (is_name && !host.is_empty()).then_some(Self { is_plain, host, port })
    }

    fn usual_port(&self) -> u16 {
        self.port.unwrap_or(if self.is_plain { 80 } else { 443 })
    }

    fn shown(&self) -> String {
        let scheme = if self.is_plain { "http://" } else { "" };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}{}{port}", self.host)
    }
}

/// A host in `fetch`.
struct HostPattern {
    below: bool,
    address: FetchAddress,
}

impl HostPattern {
    fn of(text: &str) -> Option<Self> {
        let (scheme, host) = text.split_once("://").unwrap_or(("https", text));
        let (below, host) = match host.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, host),
        };
        let is_bare = !host.contains(['/', '?', '#']);
        FetchAddress::of(&format!("{scheme}://{host}"))
            .filter(|_| is_bare)
            .map(|address| Self { below, address })
    }

    fn matches(&self, address: &FetchAddress) -> bool {
        let is_host = if self.below {
            address.host.strip_suffix(self.address.host.as_str()).is_some_and(|front| front.ends_with('.'))
        } else {
            address.host == self.address.host
        };
        // A permission for plain HTTP includes HTTPS.
        let is_scheme = self.address.is_plain || !address.is_plain;
        let is_port = match self.address.port {
            Some(port) => address.usual_port() == port,
            None => address.port.is_none() || matches!(address.usual_port(), 80 | 443),
        };
        is_host && is_scheme && is_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(fetch: &[&str], url: &str) -> bool {
        let fetch = fetch.iter().map(|&host| host.to_owned()).collect();
        let permissions = ToolPermissions { fetch, files: FilePermission::None };
        assert_eq!(permissions.fault(), None);
        permissions.allow_fetch(url).is_ok()
    }

    #[test]
    fn a_host_is_that_host_and_a_star_what_lies_below() {
        assert!(may(&["api.example.org"], "https://api.example.org/x?y#z"));
        assert!(may(&["api.example.org"], "HTTPS://API.EXAMPLE.ORG.:443/"));
        assert!(may(&["*.example.org"], "https://a.b.example.org"));
        assert!(may(&["http://localhost:8080"], "http://localhost:8080/a"));
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
            assert!(!may(&["api.example.org"], url), "{url}");
        }
        assert!(!may(&["*.example.org"], "https://example.org/"));
        assert!(!may(&["*.example.org"], "https://badexample.org/"));
        assert!(!may(&[], "https://example.org/"));
        assert!(!may(&["http://localhost:8080"], "http://localhost:8081/"));
    }

    #[test]
    fn what_names_no_host_is_refused() {
        for wrong in ["", "*", "*.", "a b", "https://a/path", "a@b", "ftp://a", "a:b"] {
            let permissions = ToolPermissions { fetch: vec![wrong.to_owned()], files: FilePermission::None };
            assert!(permissions.fault().is_some(), "{wrong}");
        }
    }
}
