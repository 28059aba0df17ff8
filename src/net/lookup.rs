//! Name lookups that a call can abandon. `getaddrinfo` cannot be interrupted, so it runs on a thread of its
//! own, which is left behind when its call ends. The number of such threads is bounded.

use super::call::{CallSlot, SLICE};
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::{io, thread};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Lookup threads of a client, including those left behind.
const MAX_LOOKUPS: usize = 64;
/// Any port will do: nothing is sent to it.
const DISCARD_PORT: u16 = 9;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// Where names are looked up.
pub(crate) trait NameSource: Debug + Send + Sync {
    /// The addresses of a name. Blocks and cannot be interrupted.
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Whether the address belongs to this machine: the kernel then uses it as the source, too. Nothing is sent.
pub(crate) fn is_own_address(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || {
        let socket = UdpSocket::bind((unspecified, 0))?;
        socket.connect((address, DISCARD_PORT))?;
        socket.local_addr()
    };
    // Without a route there is no connection either.
    source().is_ok_and(|source: SocketAddr| source.ip() == address)
}

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct SystemNames;

impl NameSource for SystemNames {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

/// Finds the addresses of hosts for the call in its slot.
#[derive(Debug)]
pub(crate) struct Lookups {
    slot: CallSlot,
    names: Arc<dyn NameSource>,
    active: Arc<AtomicUsize>,
}

type LookupResult = io::Result<Vec<SocketAddr>>;

impl Lookups {
    /// Lookups in `names` that serve no call yet.
    pub(crate) fn new(names: Arc<dyn NameSource>) -> Self {
        Self { slot: CallSlot::default(), names, active: Arc::default() }
    }

    /// The same lookups, with the same bound on threads, for the calls in `slot`.
    pub(crate) fn for_calls_in(&self, slot: &CallSlot) -> Self {
        Self { slot: slot.clone(), names: Arc::clone(&self.names), active: Arc::clone(&self.active) }
    }

    /// All addresses of a URL's host.
    pub(crate) fn all(&self, uri: &Uri) -> Result<Vec<SocketAddr>, ureq::Error> {
        let host = host_of(uri);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        match host.parse::<IpAddr>() {
            Ok(address) => Ok(vec![SocketAddr::new(address, port)]),
            Err(_) => self.wait_for(&self.look_up(host.to_owned(), port)?),
        }
    }

    /// The addresses that are tried.
    pub(crate) fn first(&self, all: Vec<SocketAddr>) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        for address in all.into_iter().take(MAX_ADDRESSES) {
            found.push(address);
        }
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }

    fn look_up(&self, host: String, port: u16) -> Result<Receiver<LookupResult>, ureq::Error> {
        let permit =
            LookupPermit::acquire(&self.active).ok_or_else(|| io::Error::other("too many name lookups"))?;
        let (sender, receiver) = sync_channel(1);
        let names = Arc::clone(&self.names);
        thread::Builder::new().name("name-lookup".to_owned()).spawn(move || {
            let _permit = permit;
            drop(sender.send(names.look_up(&host, port))); // fails when the call has ended
        })?;
        Ok(receiver)
    }

    fn wait_for(&self, receiver: &Receiver<LookupResult>) -> Result<Vec<SocketAddr>, ureq::Error> {
        self.slot.connecting()?;
        let wait = self.slot.wait()?;
        let found = loop {
            match receiver.recv_timeout(SLICE) {
                Ok(Ok(found)) => break found,
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ureq::Error::HostNotFound),
                Err(RecvTimeoutError::Timeout) => wait.check()?,
            }
        };
        self.slot.connected();
        Ok(found)
    }
}

impl Resolver for Lookups {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        self.first(self.all(uri)?)
    }
}

/// A URL's host; an IPv6 address without its brackets.
pub(crate) fn host_of(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// Counts a lookup thread until it is dropped.
struct LookupPermit(Arc<AtomicUsize>);

impl LookupPermit {
    fn acquire(active: &Arc<AtomicUsize>) -> Option<Self> {
        let permit = Self(Arc::clone(active));
        (active.fetch_add(1, Ordering::Relaxed) < MAX_LOOKUPS).then_some(permit)
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p9_the_machines_own_addresses_are_recognised() {
        assert!(is_own_address(Ipv4Addr::LOCALHOST.into()));
        assert!(!is_own_address(Ipv4Addr::new(192, 0, 2, 1).into()), "an address of documentation");
    }

    #[test]
    fn p8_concurrent_dns_lookups_are_bounded() {
        let active = Arc::new(AtomicUsize::new(0));
        let permits: Vec<_> = (0..MAX_LOOKUPS).map_while(|_| LookupPermit::acquire(&active)).collect();
        assert_eq!(permits.len(), MAX_LOOKUPS);
        assert!(LookupPermit::acquire(&active).is_none());
        drop(permits);
        assert!(LookupPermit::acquire(&active).is_some());
    }
}
