//! The places of `limits.connections`. When all are taken, connections that wait for their clients are
//! closed: those of the largest holder first, and of these the oldest. One that serves a request is never
//! closed for another one. Holders are users, or addresses, or all that the server cannot tell apart.

use super::activity::ClientWait;
use super::client_socket::SocketState;
use crate::domain::limits::{Limits, SERVER_FILES};
use crate::http::shares::ShareOwner;
use rustix::process::{Resource, getrlimit};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// One of so many places is freed at once, so that a flood of new connections costs few searches.
const SHARE_FREED: usize = 64;
/// Pause before the next search, if all connections serve requests.
const SEARCH_PAUSE: Duration = Duration::from_millis(20);
/// Between two lines of the log.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Connections that the server serves at the same time: `limits.connections`, or what the limit of open files
/// leaves beside the files of the server.
pub(crate) fn connection_places(limits: &Limits) -> usize {
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let left = usize::try_from(files.saturating_sub(SERVER_FILES).max(files / 2)).unwrap_or(usize::MAX);
    limits.connections.min(left).clamp(1, Semaphore::MAX_PERMITS)
}

#[derive(Debug)]
pub(super) struct ConnectionTable {
    places: usize,
    free: Arc<Semaphore>,
    open: Mutex<OpenConnections>,
}

#[derive(Debug, Default)]
struct OpenConnections {
    last_number: u64,
    by_number: HashMap<u64, OpenConnection>,
    /// Those closed since the last line of the log, and when that was.
    closed: usize,
    logged_at: Option<Instant>,
}

#[derive(Debug)]
struct OpenConnection {
    state: SocketState,
    /// `None` until it is spawned.
    task: Option<AbortHandle>,
}

/// A connection's place and its entry in the table, until it is dropped.
struct TablePlace {
    table: Arc<ConnectionTable>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionTable {
    pub(super) fn new(places: usize) -> Arc<Self> {
        Arc::new(Self { places, free: Arc::new(Semaphore::new(places)), open: Mutex::default() })
    }

    /// A place, if one is free.
    pub(super) fn free_place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.free).try_acquire_owned().ok()
    }

    /// Waits for a place. Closes connections that wait for their clients, if all places are taken.
    pub(super) async fn place(&self) -> OwnedSemaphorePermit {
        loop {
            if let Some(place) = self.free_place() {
                return place;
            }
            self.close_waiting();
            let next = Arc::clone(&self.free).acquire_owned();
            if let Ok(Ok(place)) = tokio::time::timeout(SEARCH_PAUSE, next).await {
                return place;
            }
        }
    }

    /// Runs a connection in its place. `serve` makes its future inside of the task: a future that is moved
    /// into another one takes its room twice.
    pub(super) fn spawn<F>(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
        state: SocketState,
        serve: impl FnOnce() -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let number = {
            let mut open = self.lock();
            open.last_number = open.last_number.wrapping_add(1);
            let number = open.last_number;
            open.by_number.insert(number, OpenConnection { state, task: None });
            number
        };
        let place = TablePlace { table: Arc::clone(self), number, _permit: permit };
        let task = tokio::spawn(async move {
            serve().await;
            drop(place);
        });
        // It may have ended already.
        if let Some(open) = self.lock().by_number.get_mut(&number) {
            open.task = Some(task.abort_handle());
        }
    }

    /// Closes some of the connections that wait for their clients, unless others are closing already.
    pub(super) fn close_waiting(&self) {
        let mut open = self.lock();
        if open.by_number.values().any(|connection| connection.state.activity().is_closing()) {
            return;
        }
        let wanted = self.places.div_ceil(SHARE_FREED);
        let mut closed: usize = 0;
        for (wait, number) in chosen(&open.by_number, wanted) {
            if let Some(OpenConnection { state, task: Some(task) }) = open.by_number.get(&number)
                && state.activity().close(wait)
            {
                task.abort();
                closed = closed.saturating_add(1);
            }
        }
        open.log(closed, self.places);
    }

    /// Returns when no connection is left.
    pub(super) async fn wait_until_all_left(&self) {
        for _ in 0..self.places {
            match self.free.acquire().await {
                Ok(place) => place.forget(),
                Err(_) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TablePlace {
    fn drop(&mut self) {
        self.table.lock().by_number.remove(&self.number);
    }
}

impl OpenConnections {
    fn log(&mut self, closed: usize, places: usize) {
        self.closed = self.closed.saturating_add(closed);
        if self.closed == 0 || self.logged_at.is_some_and(|at| at.elapsed() < LOG_PAUSE) {
            return;
        }
        let closed = std::mem::take(&mut self.closed);
        self.logged_at = Some(Instant::now());
        tracing::warn!(
            closed,
            places,
            "all places of limits.connections were taken: connections that waited for their clients were closed"
        );
    }
}

/// A connection that waits for its client, and its number.
type WaitingConnection = (ClientWait, u64);

/// A holder with connections that wait. The greatest is the one with the most connections, and among those
/// the one whose next connection has waited the longest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ConnectionHolder {
    open: usize,
    /// The one to close.
    next: Reverse<WaitingConnection>,
    /// The others, the next one last.
    rest: Vec<WaitingConnection>,
}

impl ConnectionHolder {
    /// `waiting` is in order, the next one last. `None`: none waits.
    fn new(open: usize, mut waiting: Vec<WaitingConnection>) -> Option<Self> {
        let next = waiting.pop().map(Reverse)?;
        Some(Self { open, next, rest: waiting })
    }
}

/// The connections to close, at most `wanted`.
fn chosen(open: &HashMap<u64, OpenConnection>, wanted: usize) -> Vec<WaitingConnection> {
    let mut by_holder: HashMap<Option<ShareOwner>, (usize, Vec<WaitingConnection>)> = HashMap::new();
    for (number, connection) in open {
        let activity = connection.state.activity();
        let (open, waiting) = by_holder.entry(activity.holder()).or_default();
        *open = open.saturating_add(1);
        waiting.extend(activity.client_wait().map(|wait| (wait, *number)));
    }
    let holders = by_holder.into_values().filter_map(|(open, mut waiting)| {
        waiting.sort_unstable_by(|one, other| other.cmp(one));
        ConnectionHolder::new(open, waiting)
    });
    let mut holders: BinaryHeap<_> = holders.collect();
    let mut chosen = Vec::with_capacity(wanted);
    while chosen.len() < wanted
        && let Some(ConnectionHolder { open, next: Reverse(next), rest }) = holders.pop()
    {
        chosen.push(next);
        holders.extend(ConnectionHolder::new(open.saturating_sub(1), rest));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;

    const EVE: ShareOwner = ShareOwner::User(UserId(1));
    const BOB: ShareOwner = ShareOwner::User(UserId(2));

    /// A connection of this holder; each is a second younger than the one before it.
    async fn opened(holder: ShareOwner) -> OpenConnection {
        let state = SocketState::default();
        state.set_holder(holder);
        tokio::time::advance(Duration::from_secs(1)).await;
        OpenConnection { state, task: None }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_of_the_largest_holder_are_chosen_and_none_that_serves() {
        let mut open = HashMap::new();
        for (number, holder) in [BOB, EVE, EVE, EVE, EVE, BOB].into_iter().enumerate() {
            open.insert(number as u64, opened(holder).await);
        }
        assert!(open[&1].state.activity().begin_request(), "a stream of eve");
        let of = |wanted| chosen(&open, wanted).into_iter().map(|(_, number)| number).collect::<Vec<_>>();
        assert_eq!(of(1), [2]);
        assert_eq!(of(2), [2, 3], "eve holds three, and bob two");
        assert_eq!(of(9), [2, 3, 0, 4, 5], "with as many the oldest goes first");
    }

    #[tokio::test]
    async fn a_place_is_free_again_when_a_connection_that_waits_was_closed() {
        let table = ConnectionTable::new(1);
        for _ in 0..3 {
            table.spawn(table.place().await, SocketState::default(), std::future::pending);
        }
        assert_eq!(table.lock().by_number.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_connection_that_waits_the_next_one_waits_for_a_place() {
        let table = ConnectionTable::new(1);
        let state = SocketState::default();
        let (sender, end) = tokio::sync::oneshot::channel::<()>();
        assert!(state.activity().begin_request());
        table.spawn(table.place().await, state.clone(), || async move { drop(end.await) });
        let next = tokio::time::timeout(Duration::from_secs(60), table.place()).await;
        assert!(next.is_err(), "a request is never cut for another connection");
        drop(sender);
        drop(table.place().await);
        assert!(table.lock().by_number.is_empty());
    }
}
