//! `listen:`. Without accounts only loopback addresses and unix sockets are allowed (P9).

use crate::domain::account::AuthMode;
use serde::{Serialize, Serializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Where the server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address; without accounts a loopback one. Port 0 chooses a free port.
    Tcp(SocketAddr),
    /// A socket file.
    Unix(PathBuf),
}

impl Listen {
    /// Parses `text`; the error names the allowed values.
    pub(crate) fn parse(text: &str, mode: AuthMode) -> Result<Self, &'static str> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() {
                Ok(Self::Unix(path))
            } else {
                Err("unix: needs an absolute path")
            };
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => {
                port.parse().ok().map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
            }
            None => text.parse().ok(),
        };
        match address {
            Some(address) => Self::admit(address, mode).map(|()| Self::Tcp(address)),
            None => Err("must be ADDRESS:PORT as in 127.0.0.1:8787 or [::1]:8787, or unix:/absolute/path"),
        }
    }
}

impl Listen {
    /// Checks that the address may be used; the error names the reason and the allowed addresses (P9).
    pub fn admit(address: SocketAddr, mode: AuthMode) -> Result<(), &'static str> {
        if address.ip().is_loopback() || mode == AuthMode::Multi {
            return Ok(());
        }
        Err(
            "with auth_mode: single everyone who reaches the server runs code on it, so only loopback addresses are \
             allowed; set auth_mode: multi (accounts and API tokens), or listen on 127.0.0.1 or unix:/path",
        )
    }
}

impl Listen {
    /// The address for clients on this machine, as a URL or `unix:/path`; `None` for port 0.
    pub fn client_address(&self) -> Option<String> {
        match self {
            Self::Tcp(address) if address.port() == 0 => None,
            Self::Tcp(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                    ip => ip,
                };
                Some(format!("http://{}", SocketAddr::new(ip, address.port())))
            }
            Self::Unix(_) => Some(self.to_string()),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Listen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_without_accounts_only_loopback_and_unix_are_accepted() {
        for good in ["127.0.0.1:8787", "127.9.9.9:0", "[::1]:1", "localhost:80", "unix:/run/n.sock"] {
            assert!(Listen::parse(good, AuthMode::Single).is_ok(), "{good}");
        }
        for public in ["0.0.0.0:8787", "[::]:8787", "192.168.1.2:80", "[::ffff:127.0.0.1]:80", "10.0.0.1:1"] {
            assert!(
                Listen::parse(public, AuthMode::Single)
                    .is_err_and(|reason| reason.contains("auth_mode: multi")),
                "{public}"
            );
        }
        assert!(Listen::parse("0.0.0.0:8787", AuthMode::Multi).is_ok(), "accounts keep strangers out");
        for bad in
            ["8787", "127.0.0.1", "localhost:x", "127.0.0.1:99999", "unix:n.sock", "", "example.org:80"]
        {
            assert!(Listen::parse(bad, AuthMode::Multi).is_err(), "{bad}");
        }
    }

    #[test]
    fn clients_reach_an_unspecified_address_over_loopback() {
        for (listen, address) in [
            ("127.0.0.1:8787", Some("http://127.0.0.1:8787")),
            ("0.0.0.0:80", Some("http://127.0.0.1:80")),
            ("[::]:80", Some("http://[::1]:80")),
            ("unix:/run/n.sock", Some("unix:/run/n.sock")),
            ("127.0.0.1:0", None),
        ] {
            let listen = Listen::parse(listen, AuthMode::Multi).expect("an address");
            assert_eq!(listen.client_address().as_deref(), address);
        }
    }
}
