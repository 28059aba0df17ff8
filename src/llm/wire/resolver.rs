//! Name lookups on a leash. `getaddrinfo` cannot be interrupted, so it runs on a thread of its own that is left
//! behind when nobody waits any more. Owns the bound on such threads; refuses to cache (the system's resolver does).

use super::tether::{self, SLICE};
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

/// Finds a provider's addresses.
#[derive(Debug, Default)]
pub(super) struct LeashedResolver {
    under_way: Arc<AtomicUsize>,
}

impl Resolver for LeashedResolver {
    fn resolve(&self, uri: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut found = self.empty();
        if let Ok(address) = host.parse::<IpAddr>() {
            found.push(SocketAddr::new(address, port));
            return Ok(found);
        }
        for address in await_lookup(&self.look_up(host.to_owned(), port)?)?.into_iter().take(ADDRESSES) {
            found.push(address);
        }
        if found.is_empty() { Err(ureq::Error::HostNotFound) } else { Ok(found) }
    }
}

type Lookup = io::Result<Vec<SocketAddr>>;

impl LeashedResolver {
    fn look_up(&self, host: String, port: u16) -> Result<Receiver<Lookup>, ureq::Error> {
        let counter =
            Counted::try_new(&self.under_way).ok_or_else(|| io::Error::other("too many name lookups"))?;
        let (sender, receiver) = sync_channel(1);
        thread::Builder::new().name("name-lookup".to_owned()).spawn(move || {
            let _counted = counter;
            let found = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
            drop(sender.send(found)); // nobody waits any more: that is fine
        })?;
        Ok(receiver)
    }
}

fn await_lookup(receiver: &Receiver<Lookup>) -> Result<Vec<SocketAddr>, ureq::Error> {
    tether::connecting()?;
    let wait = tether::begin()?;
    let found = loop {
        match receiver.recv_timeout(SLICE) {
            Ok(Ok(found)) => break found,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ureq::Error::HostNotFound),
            Err(RecvTimeoutError::Timeout) => wait.check()?,
        }
    };
    tether::connected();
    Ok(found)
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
    use crate::llm::wire::tether::Patience;
    use crate::ports::{Clock, Leash, Stop, StopFlag};
    use std::time::Duration;

    /// Each look at it moves it on by 100 ms.
    #[derive(Default)]
    struct Striding(AtomicUsize);

    impl Clock for Striding {
        fn now_ms(&self) -> u64 {
            self.monotonic_ms()
        }
        fn monotonic_ms(&self) -> u64 {
            self.0.fetch_add(100, Ordering::SeqCst) as u64
        }
        fn pause(&self, _: &StopFlag, _: Duration) {}
    }

    fn leash() -> Leash {
        Leash { stop: StopFlag::default(), deadline_ms: u64::MAX, clock: Arc::new(Striding::default()) }
    }

    fn cut(error: ureq::Error) -> Option<tether::Cut> {
        tether::cut_of(&error.into_io())
    }

    #[test]
    fn a_lookup_that_hangs_is_left() {
        let patience = Patience { connect: Duration::from_secs(1), idle: Duration::from_secs(9) };
        let (_sender, receiver) = sync_channel(1);
        let leash = leash();
        let _held = tether::hold(&leash, patience);
        assert_eq!(await_lookup(&receiver).map_err(cut), Err(Some(tether::Cut::Connect)));
        leash.stop.raise(Stop::Cancelled);
        assert_eq!(await_lookup(&receiver).map_err(cut), Err(Some(tether::Cut::Pulled)));
    }

    #[test]
    fn a_thread_without_a_tether_gets_no_network() {
        let (_sender, receiver) = sync_channel(1);
        assert_eq!(await_lookup(&receiver).map_err(cut), Err(Some(tether::Cut::Pulled)));
    }

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
