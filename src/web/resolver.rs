//! Name lookups that end at the fence. Every address of a name is checked, and the connection goes to those very addresses:
//! a name that leads elsewhere when it is asked again (DNS rebinding) gains nothing. Refuses to cache.

use super::destination::refusal;
use super::tether::{self, SLICE};
use crate::domain::address::AddressPolicy;
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
pub(super) trait Names: Debug + Send + Sync {
    /// The addresses of a name. Blocks, and cannot be interrupted.
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver.
#[derive(Debug)]
pub(super) struct SystemNames;

impl Names for SystemNames {
    fn look_up(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok((host, port).to_socket_addrs()?.collect())
    }
}

/// Finds addresses and refuses those that the policy does not permit.
#[derive(Debug)]
pub(super) struct CheckedResolver {
    /// `None`: every address may be called.
    policy: Option<AddressPolicy>,
    names: Arc<dyn Names>,
    under_way: Arc<AtomicUsize>,
}

impl CheckedResolver {
    pub(super) fn new(policy: Option<AddressPolicy>, names: Arc<dyn Names>) -> Self {
        Self { policy, names, under_way: Arc::default() }
    }

    /// `getaddrinfo` cannot be interrupted, so it runs on a thread of its own that is left behind when nobody waits.
    fn look_up(&self, host: String, port: u16) -> Result<Receiver<Lookup>, ureq::Error> {
        let counter =
            Counted::try_new(&self.under_way).ok_or_else(|| io::Error::other("too many name lookups"))?;
        let (sender, receiver) = sync_channel(1);
        let names = Arc::clone(&self.names);
        thread::Builder::new().name("web-name-lookup".to_owned()).spawn(move || {
            let _counted = counter;
            drop(sender.send(names.look_up(&host, port))); // nobody waits any more: that is fine
        })?;
        Ok(receiver)
    }
}

type Lookup = io::Result<Vec<SocketAddr>>;

impl Resolver for CheckedResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let all = match host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => await_lookup(&self.look_up(host.to_owned(), port)?)?,
        };
        let is_permitted =
            |address: &SocketAddr| self.policy.as_ref().is_none_or(|policy| policy.permits(address.ip()));
        // A name that leads to both kinds is made to get past somebody's check.
        if !all.iter().all(is_permitted) {
            return Err(ureq::Error::Other(Box::new(refusal(host))));
        }
        let mut found = self.empty();
        for address in all.into_iter().take(ADDRESSES) {
            found.push(address);
        }
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }
}

fn await_lookup(receiver: &Receiver<Lookup>) -> Result<Vec<SocketAddr>, ureq::Error> {
    loop {
        tether::check()?;
        match receiver.recv_timeout(SLICE) {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ureq::Error::HostNotFound),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
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
