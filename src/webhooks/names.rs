//! Finds the addresses of receivers and drops forbidden ones. The connection uses the checked addresses
//! themselves, so DNS rebinding gains nothing. A lookup cannot be interrupted and holds a thread, so users
//! take turns at the threads.

use super::error::SendError;
use crate::domain::address::AddressPolicy;
use crate::domain::fair_share::{FairShare, Holdings};
use crate::domain::id::UserId;
use crate::net::{NameSource, is_own_address};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Lookups at once; a quarter more for users who have none.
const LOOKUPS: usize = 32;
/// Addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

/// Threads that lookups may hold at once.
pub(super) fn lookup_threads() -> usize {
    FairShare::of(LOOKUPS).places()
}

/// The addresses that webhooks may reach.
#[derive(Debug)]
pub(super) struct PermittedAddresses {
    policy: AddressPolicy,
    names: Arc<dyn NameSource>,
    turns: Arc<LookupTurns>,
}

impl PermittedAddresses {
    pub(super) fn new(policy: AddressPolicy, names: Arc<dyn NameSource>) -> Self {
        Self { policy, names, turns: Arc::default() }
    }

    /// The permitted addresses of a host (an IPv6 address without brackets); at least one.
    pub(super) async fn of(&self, user: UserId, host: &str, port: u16) -> Result<Vec<SocketAddr>, SendError> {
        let all = self.all(user, host, port).await?;
        let is_permitted = |address: &SocketAddr| {
            let ip = address.ip();
            self.policy.permits_peer(ip, is_own_address(ip))
        };
        let permitted: Vec<SocketAddr> = all.into_iter().filter(is_permitted).take(MAX_ADDRESSES).collect();
        if permitted.is_empty() { Err(SendError::Refused) } else { Ok(permitted) }
    }

    async fn all(&self, user: UserId, host: &str, port: u16) -> Result<Vec<SocketAddr>, SendError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let (permit, names, host) =
            (self.turns.acquire(user).await, Arc::clone(&self.names), host.to_owned());
        let look_up = move || {
            let _permit = permit; // held while the thread is
            names.look_up(&host, port)
        };
        let found = tokio::task::spawn_blocking(look_up).await.ok().and_then(Result::ok);
        let unknown = || SendError::because("the receiver's name is not known");
        found.filter(|found| !found.is_empty()).ok_or_else(unknown)
    }
}

/// The threads for lookups, which users share.
#[derive(Debug, Default)]
struct LookupTurns(Mutex<LookupState>);

#[derive(Debug, Default)]
struct LookupState {
    held: Holdings<UserId>,
    /// In order of arrival.
    waiting: VecDeque<WaitingLookup>,
}

#[derive(Debug)]
struct WaitingLookup {
    user: UserId,
    admit: oneshot::Sender<LookupTurn>,
}

/// The right to hold a thread. Dropping it admits others.
#[derive(Debug)]
struct LookupTurn {
    turns: Arc<LookupTurns>,
    user: UserId,
}

impl LookupTurns {
    /// Waits for a thread. `None` never comes: the queue outlives its waiters.
    async fn acquire(self: &Arc<Self>, user: UserId) -> Option<LookupTurn> {
        let (admit, admitted) = oneshot::channel();
        self.lock().waiting.push_back(WaitingLookup { user, admit });
        self.admit_next();
        admitted.await.ok()
    }

    fn admit_next(self: &Arc<Self>) {
        while let Some(WaitingLookup { user, admit }) = self.take_next() {
            // If the waiter has gone, its turn is dropped here.
            drop(admit.send(LookupTurn { turns: Arc::clone(self), user }));
        }
    }

    fn take_next(&self) -> Option<WaitingLookup> {
        let mut state = self.lock();
        state.waiting.retain(|waiting| !waiting.admit.is_closed());
        let at = state.held.next(FairShare::of(LOOKUPS), state.waiting.iter().map(|waiting| waiting.user))?;
        let next = state.waiting.remove(at)?;
        state.held.take(next.user, 1);
        Some(next)
    }

    fn lock(&self) -> MutexGuard<'_, LookupState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LookupTurn {
    fn drop(&mut self) {
        self.turns.lock().held.give_back(self.user, 1);
        self.turns.admit_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn poll_once<F: Future>(future: F) -> Option<F::Output> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn p7_a_user_whose_names_hang_leaves_threads_to_others() {
        let turns: Arc<LookupTurns> = Arc::default();
        let hanging: Vec<_> = (0..LOOKUPS).filter_map(|_| poll_once(turns.acquire(UserId(1)))).collect();
        assert_eq!(hanging.len(), LOOKUPS);
        assert!(poll_once(turns.acquire(UserId(1))).is_none());
        let other = poll_once(turns.acquire(UserId(2))).expect("a thread of the reserve");
        assert!(poll_once(turns.acquire(UserId(2))).is_none());
        drop(other);
        assert_eq!(turns.lock().held.of(UserId(2)), 0, "a waiter that has gone holds nothing");
        drop(hanging);
        assert_eq!(turns.lock().held.total(), 0);
        assert!(poll_once(turns.acquire(UserId(1))).is_some());
        assert!(turns.lock().waiting.is_empty());
    }
}
