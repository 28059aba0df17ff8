//! Host and Origin checks (P9). They keep web pages, DNS rebinding included, from driving a server on the
//! loopback address.

use crate::http::error::ApiError;
use crate::http::request::quoted::quoted;
use crate::http::server::listener::BoundAddress;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Version};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// Names that are always allowed, with any port, for tunnels and port mappings.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// The scheme of this server. TLS ends at a proxy, whose origin belongs in `allowed_origins`.
const SCHEME: &str = "http";
/// The scheme of pages behind such a proxy.
const TLS_SCHEME: &str = "https";

/// Allowed hosts and origins.
#[derive(Debug)]
pub(crate) struct HostOriginGuard {
    /// `None` for a unix socket: no browser reaches it, and its clients send any Host.
    hosts: Option<Vec<HostPort>>,
    origins: Vec<String>,
}

/// `name[:port]` in lower case; without a port any port fits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    name: String,
    port: Option<u16>,
}

impl HostOriginGuard {
    pub(crate) fn new(bound: &BoundAddress, allowed_hosts: &[String], allowed_origins: &[String]) -> Self {
        let hosts = match bound {
            BoundAddress::Unix(_) => None,
            BoundAddress::Tcp(address) => {
                let own = match address.ip() {
                    std::net::IpAddr::V4(ip) => ip.to_string(),
                    std::net::IpAddr::V6(ip) => format!("[{ip}]"),
                };
                let names = LOOPBACK_NAMES.iter().copied().chain([own.as_str()]);
                Some(names.chain(allowed_hosts.iter().map(String::as_str)).filter_map(authority).collect())
            }
        };
        let origins = allowed_origins.iter().map(|o| o.trim_end_matches('/').to_ascii_lowercase()).collect();
        Self { hosts, origins }
    }

    /// Fails if the host or the origin is not allowed.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let host = self.host(request)?;
        self.origin(request.headers(), host.as_ref())
    }

    /// Fails if the host is not allowed.
    pub(crate) fn check_host<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        self.host(request).map(drop)
    }

    /// The origin if it is in `allowed_origins`: such a page needs CORS headers. Call it after
    /// [`Self::check`].
    pub(crate) fn page(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?.to_ascii_lowercase();
        self.origins.contains(&text).then(|| origin.clone())
    }

    /// Whether `allowed_origins` has any entry.
    pub(crate) fn allows_pages(&self) -> bool {
        !self.origins.is_empty()
    }

    /// The checked Host. The host of an absolute request target is checked, too, because it wins over the
    /// header.
    fn host<B>(&self, request: &Request<B>) -> Result<Option<HostPort>, ApiError> {
        if let Some(target) = request.uri().authority() {
            self.known(target.as_str())?;
        }
        match single(request.headers(), &header::HOST)? {
            Some(text) => self.known(text),
            None if request.version() < Version::HTTP_11 => Ok(None),
            None => Err(ApiError::value("Host", "the Host header is missing")),
        }
    }

    fn known(&self, text: &str) -> Result<Option<HostPort>, ApiError> {
        let host = authority(text);
        let Some(hosts) = &self.hosts else { return Ok(host) };
        let fits = |host: &HostPort| {
            hosts
                .iter()
                .any(|known| known.name == host.name && (known.port.is_none() || known.port == host.port))
        };
        if host.as_ref().is_some_and(fits) { Ok(host) } else { Err(ApiError::Host(quoted(text))) }
    }

    fn origin(&self, headers: &HeaderMap, host: Option<&HostPort>) -> Result<(), ApiError> {
        let Some(origin) = single(headers, &header::ORIGIN)? else {
            // A browser that hides the origin still reports that the page is foreign.
            let site = single(headers, &SEC_FETCH_SITE)?;
            let foreign = site.is_some_and(|site| site.eq_ignore_ascii_case("cross-site"));
            return if foreign {
                Err(ApiError::Origin(
                    "a cross-site request without an Origin header is not allowed; allowed_origins in the configuration \
                     names the pages that may call this server, and their browsers send the header"
                        .to_owned(),
                ))
            } else {
                Ok(())
            };
        };
        let parts = origin.split_once("://").and_then(|(scheme, rest)| Some((scheme, authority(rest)?)));
        let own = parts.zip(host).is_some_and(|((scheme, origin), host)| {
            let plain = scheme.eq_ignore_ascii_case(SCHEME) && same(host, &origin);
            plain || (scheme.eq_ignore_ascii_case(TLS_SCHEME) && is_behind_tls(host, &origin))
        });
        if own || self.origins.contains(&origin.to_ascii_lowercase()) {
            Ok(())
        } else {
            Err(ApiError::Origin(origin_refusal(origin)))
        }
    }
}

/// The refusal of an origin, with the line of the configuration that allows it.
fn origin_refusal(origin: &str) -> String {
    let shown = quoted(origin);
    let is_http = ["http", "https"].iter().any(|scheme| {
        let rest = origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://"));
        rest.and_then(authority).is_some()
    });
    if is_http {
        return format!(
            "origin {shown} is not allowed; if the page is yours (a development server, say), put this line into the \
             configuration and restart: allowed_origins: [\"{origin}\"]"
        );
    }
    format!(
        "origin {shown} is not allowed, and allowed_origins in the configuration cannot name it; serve the page \
         over http:// or https://"
    )
}

/// Whether a page over TLS belongs to this server: its origin is the Host of the request, which is in
/// `allowed_hosts`.
fn is_behind_tls(host: &HostPort, origin: &HostPort) -> bool {
    !LOOPBACK_NAMES.contains(&host.name.as_str()) && host == origin
}

/// Whether both name the same server; a missing port is the default port.
fn same(a: &HostPort, b: &HostPort) -> bool {
    a.name == b.name && a.port.unwrap_or(80) == b.port.unwrap_or(80)
}

/// The value of a header that may be given once.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ApiError> {
    let mut lines = headers.get_all(name).iter();
    let Some(first) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(ApiError::value(name.as_str(), format!("the header '{name}' is given twice")));
    }
    let text = first
        .to_str()
        .map_err(|_| ApiError::value(name.as_str(), format!("the header '{name}' is not ASCII")))?;
    Ok(Some(text))
}

/// Parses `name`, `name:port` or `[v6]:port`; nothing else, so no user part and no path.
fn authority(text: &str) -> Option<HostPort> {
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (inside, after) = rest.split_once(']')?;
        let ip: std::net::Ipv6Addr = inside.parse().ok()?;
        (format!("[{ip}]"), after)
    } else {
        let (name, after) = text.split_at(text.find(':').unwrap_or(text.len()));
        (name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase(), after)
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_');
    if name.is_empty() || !(name.starts_with('[') || name.bytes().all(plain)) {
        return None;
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        Some(digits) => {
            Some(crate::http::request::query::digits(digits).and_then(|port| u16::try_from(port).ok())?)
        }
    };
    Some(HostPort { name, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> HostOriginGuard {
        let bound = BoundAddress::Tcp("127.0.0.5:8787".parse().expect("an address"));
        HostOriginGuard::new(
            &bound,
            &["nano.example".into(), "box:99".into()],
            &["https://ui.example".into()],
        )
    }

    fn status(guard: &HostOriginGuard, headers: &[(&str, &str)]) -> &'static str {
        let mut request = Request::builder().uri("/healthz");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match guard.check(&request.body(()).expect("a request")) {
            Ok(()) => "in",
            Err(ApiError::Host(_)) => "host",
            Err(ApiError::Origin(_)) => "origin",
            Err(_) => "bad",
        }
    }

    #[test]
    fn p9_only_known_hosts_are_accepted() {
        let good = [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:8787",
            "[::1]:8787",
            "[0:0::1]",
            "127.0.0.5",
            "localhost.",
        ];
        for host in good.into_iter().chain(["nano.example:443", "box:99"]) {
            assert_eq!(status(&guard(), &[("host", host)]), "in", "{host}");
        }
        let bad =
            ["evil.example", "localhost.evil.example", "box:98", "box", "127.0.0.1.nip.io", "user@localhost"];
        for host in
            bad.into_iter().chain(["localhost:x", "localhost:99999", "", "[::2]", "localhost/..", "[::1]x"])
        {
            assert_eq!(status(&guard(), &[("host", host)]), "host", "{host}");
        }
        assert_eq!(status(&guard(), &[]), "bad", "HTTP/1.1 demands a Host");
        assert_eq!(status(&guard(), &[("host", "localhost"), ("host", "localhost")]), "bad");
    }

    #[test]
    fn p9_a_foreign_absolute_target_is_refused_despite_an_allowed_host() {
        let request = Request::builder().uri("http://evil.example/").header("host", "localhost");
        assert!(guard().check(&request.body(()).expect("a request")).is_err());
    }

    #[test]
    fn p9_only_own_and_allowed_origins_are_accepted() {
        for origin in ["http://localhost:8787", "HTTP://LOCALHOST:8787", "https://ui.example"] {
            assert_eq!(status(&guard(), &[("host", "localhost:8787"), ("origin", origin)]), "in", "{origin}");
        }
        let foreign =
            ["null", "http://evil.example", "http://localhost:3000", "https://localhost:8787", "", "http://"];
        // Behind a proxy that speaks TLS under a name of ours, the page's origin is that name.
        let behind = |origin| status(&guard(), &[("host", "nano.example"), ("origin", origin)]);
        assert_eq!(behind("https://nano.example"), "in");
        assert_eq!(
            (behind("https://nano.example:444"), behind("https://evil.example")),
            ("origin", "origin")
        );
        for origin in foreign.into_iter().chain(["https://ui.example.evil", "http://localhost:8787@evil"]) {
            assert_eq!(
                status(&guard(), &[("host", "localhost:8787"), ("origin", origin)]),
                "origin",
                "{origin}"
            );
        }
        assert_eq!(status(&guard(), &[("host", "localhost:80"), ("origin", "http://localhost")]), "in");
    }

    #[test]
    fn p9_a_cross_site_request_without_origin_is_refused() {
        let site = |site| status(&guard(), &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert_eq!((site("cross-site"), site("same-origin"), site("none")), ("origin", "in", "in"));
        let allowed =
            [("host", "localhost"), ("sec-fetch-site", "cross-site"), ("origin", "https://ui.example")];
        assert_eq!(status(&guard(), &allowed), "in");
    }

    #[test]
    fn a_refused_origin_is_told_the_line_that_allows_it() {
        let refusal = origin_refusal("http://localhost:5173");
        assert!(refusal.contains("allowed_origins: [\"http://localhost:5173\"]"), "{refusal}");
        for odd in ["null", "file://", "http://a\"], x: [\"", "chrome-extension://abc"] {
            let refusal = origin_refusal(odd);
            assert!(
                refusal.contains("cannot name it") && !refusal.contains("allowed_origins: ["),
                "{refusal}"
            );
        }
    }

    #[test]
    fn a_unix_socket_takes_any_host_but_no_foreign_origin() {
        let guard = HostOriginGuard::new(&BoundAddress::Unix("/s".into()), &[], &[]);
        assert_eq!(status(&guard, &[("host", "whatever.example")]), "in");
        assert_eq!(status(&guard, &[("host", "localhost"), ("origin", "http://evil.example")]), "origin");
    }
}
