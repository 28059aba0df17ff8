//! The address that rate limits count by. `X-Forwarded-For` counts only when the peer is a proxy on this
//! machine.

use hyper::HeaderMap;
use hyper::header::HeaderName;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Each proxy appends the address of its client.
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The network part of an IPv6 address of one customer: 64 bits.
const V6_SITE: u128 = !0 << 64;

/// The other end of a connection; `None`: a unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) Option<IpAddr>);

impl Peer {
    /// Whether it is on this machine, so that it may be a proxy.
    pub(crate) fn is_local(self) -> bool {
        self.0.is_none_or(|ip| ip.to_canonical().is_loopback())
    }
}

/// The address that limits count by. `None`: this machine, which may be one client or a proxy for many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(Option<IpAddr>);

impl ClientAddress {
    /// The address of the peer, or the one a proxy on this machine reports. Headers of other peers are
    /// ignored.
    pub(crate) fn of(peer: Peer, headers: &HeaderMap) -> Self {
        let own = if peer.is_local() { forwarded(headers) } else { peer.0 };
        Self(own.map(site))
    }

    /// Whether it identifies a client. If not, a limit by address would hit everybody.
    pub(crate) fn is_own(self) -> bool {
        self.0.is_some()
    }
}

/// The address; nothing for this machine.
impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |ip| ip.fmt(f))
    }
}

/// The last entry: the nearest proxy added it.
fn forwarded(headers: &HeaderMap) -> Option<IpAddr> {
    let line = headers.get_all(X_FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
    let newest = line.rsplit(',').next()?.trim();
    let with_port = || newest.parse::<SocketAddr>().ok().map(|address| address.ip());
    newest.parse().ok().or_else(with_port)
}

/// An IPv6 client has 2^64 addresses.
fn site(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & V6_SITE).into(),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(peer: &str, forwarded: &[&'static str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(X_FORWARDED_FOR, hyper::header::HeaderValue::from_static(line));
        }
        match ClientAddress::of(Peer(peer.parse().ok()), &headers).0 {
            Some(ip) => ip.to_string(),
            None => "local".to_owned(),
        }
    }

    #[test]
    fn forwarded_addresses_are_trusted_only_from_a_local_proxy() {
        assert_eq!(address("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(
            address("127.0.0.1", &["10.0.0.1, 198.51.100.1"]),
            "198.51.100.1",
            "the proxy's own entry"
        );
        assert_eq!(address("::1", &["10.0.0.1", "198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(address("", &["198.51.100.1"]), "198.51.100.1", "a unix socket");
        assert_eq!(
            [address("", &[]), address("127.0.0.1", &["nonsense"]), address("::1", &[])],
            ["local", "local", "local"],
            "a proxy that tells nothing"
        );
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        assert_eq!(address("2001:db8:1:2:3:4:5:6", &[]), address("2001:db8:1:2::9", &[]));
        assert_ne!(address("2001:db8:1:2::9", &[]), address("2001:db8:1:3::9", &[]));
        assert_eq!(address("::ffff:203.0.113.9", &[]), "203.0.113.9");
    }
}
