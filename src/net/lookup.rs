//! Name lookups on a tether. `getaddrinfo` cannot be interrupted, so it runs on a thread of its own that is left behind
//! when nobody waits any more. Owns the bound on such threads; refuses to cache (the system's resolver does).

use super::tether::{SLICE, Tether, Wait};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::{io, thread};
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// Lookups at once, the left-behind ones included.
const LOOKUPS: usize = 64;
/// Addresses of a name that are tried.
const ADDRESSES: usize = 8;

/// Where names are looked up.
pub(crate) trait Names: Debug + Send + Sync {
    /// The addresses of a name. Blocks, and cannot be interrupted.
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver.
#[derive(Debug)]
pub(crate) struct SystemNames;

impl Names for SystemNames {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

/// Finds the addresses of hosts.
#[derive(Debug)]
pub(crate) struct Lookups {
    tether: &'static dyn Tether,
    names: Arc<dyn Names>,
    under_way: Arc<AtomicUsize>,
}

type Lookup = io::Result<Vec<SocketAddr>>;

impl Lookups {
    /// Names are looked up in `names`, and waited for as the tether allows.
    pub(crate) fn new(tether: &'static dyn Tether, names: Arc<dyn Names>) -> Self {
        Self { tether, names, under_way: Arc::default() }
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

    /// Those that are tried.
    pub(crate) fn first(&self, all: Vec<SocketAddr>) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut found = self.empty();
        for address in all.into_iter().take(ADDRESSES) {
            found.push(address);
        }
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }

    fn look_up(&self, host: String, port: u16) -> Result<Receiver<Lookup>, ureq::Error> {
        let counter =
            Counted::try_new(&self.under_way).ok_or_else(|| io::Error::other("too many name lookups"))?;
        let (sender, receiver) = sync_channel(1);
        let names = Arc::clone(&self.names);
        thread::Builder::new().name("name-lookup".to_owned()).spawn(move || {
            let _counted = counter;
            drop(sender.send(names.look_up(&host, port))); // nobody waits any more: that is fine
        })?;
        Ok(receiver)
    }

    fn wait_for(&self, receiver: &Receiver<Lookup>) -> Result<Vec<SocketAddr>, ureq::Error> {
        self.tether.connecting()?;
        let wait = Wait::begin(self.tether)?;
        let found = loop {
            match receiver.recv_timeout(SLICE) {
                Ok(Ok(found)) => break found,
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ureq::Error::HostNotFound),
                Err(RecvTimeoutError::Timeout) => wait.check()?,
            }
        };
        self.tether.connected();
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

/// One of the lookups at once; gives its place back when dropped.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn try_new(under_way: &Arc<AtomicUsize>) -> Option<Self> {
        let counted = Self(Arc::clone(under_way));
        (under_way.fetch_add(1, Ordering::Relaxed) < LOOKUPS).then_some(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p8_lookups_at_once_are_bounded() {
        let under_way = Arc::new(AtomicUsize::new(0));
        let places: Vec<_> = (0..LOOKUPS).map_while(|_| Counted::try_new(&under_way)).collect();
        assert_eq!(places.len(), LOOKUPS);
        assert!(Counted::try_new(&under_way).is_none());
        drop(places);
        assert!(Counted::try_new(&under_way).is_some());
    }
}
