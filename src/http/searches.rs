//! Searches of project files and conversations run on a few threads of their own, which users share: a search
//! reads and compares for seconds, and other requests need the threads that may block.

use super::error::ApiError;
use super::shares::ShareOwner;
use crate::domain::fair_share::{FairShare, Holdings};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Searches of one client at the same time. The reserve of the others is one more.
const SEARCHES: usize = 2;
/// Searches of one client that wait.
const WAITING: usize = 64;

/// The threads, and who waits for them.
#[derive(Debug)]
pub(crate) struct SearchThreads {
    share: FairShare,
    state: Mutex<SearchState>,
}

#[derive(Debug, Default)]
struct SearchState {
    running: Holdings<Option<ShareOwner>>,
    /// In order of arrival.
    waiting: VecDeque<(Option<ShareOwner>, oneshot::Sender<SearchPlace>)>,
}

/// The right to run one search; the next one begins when it is dropped.
#[derive(Debug)]
struct SearchPlace {
    threads: Arc<SearchThreads>,
    owner: Option<ShareOwner>,
}

impl Default for SearchThreads {
    fn default() -> Self {
        Self { share: FairShare::of(SEARCHES), state: Mutex::default() }
    }
}

impl SearchThreads {
    /// Runs a search when it is the client's turn. It continues when the caller is dropped.
    pub(crate) async fn run<T, F>(
        self: &Arc<Self>,
        owner: Option<ShareOwner>,
        search: F,
    ) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.enter(owner)?.await.map_err(|_| ApiError::Internal)?;
        let (sender, found) = oneshot::channel();
        let span = tracing::Span::current();
        let work = move || {
            let found = span.in_scope(search);
            drop(place);
            // The client may have left.
            drop(sender.send(found));
        };
        std::thread::Builder::new().name("search".to_owned()).spawn(work).map_err(|error| {
            tracing::warn!(%error, "cannot start a thread for a search");
            ApiError::Internal
        })?;
        // A panic drops the sender.
        found.await.map_err(|_| ApiError::Internal)
    }

    fn enter(
        self: &Arc<Self>,
        owner: Option<ShareOwner>,
    ) -> Result<oneshot::Receiver<SearchPlace>, ApiError> {
        let (sender, turn) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.retain(|(_, waiter)| !waiter.is_closed());
        if state.waiting.iter().filter(|(other, _)| *other == owner).count() >= WAITING {
            let message = format!("{WAITING} searches of yours wait already; try again when some have ended");
            return Err(ApiError::TooMany { message, retry_after_s: 1 });
        }
        state.waiting.push_back((owner, sender));
        drop(state);
        self.start_next();
        Ok(turn)
    }

    /// Gives free places to those who wait: the client with the fewest searches first.
    fn start_next(self: &Arc<Self>) {
        loop {
            // The lock is released at once: a waiter that has left drops its place, which takes it again.
            let next = self.lock().next(self.share);
            let Some((owner, waiter)) = next else { break };
            drop(waiter.send(SearchPlace { threads: Arc::clone(self), owner }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SearchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SearchState {
    /// Takes the next waiter and counts its search as running.
    fn next(&mut self, share: FairShare) -> Option<(Option<ShareOwner>, oneshot::Sender<SearchPlace>)> {
        self.waiting.retain(|(_, waiter)| !waiter.is_closed());
        let at = self.running.next(share, self.waiting.iter().map(|(owner, _)| *owner))?;
        let (owner, waiter) = self.waiting.remove(at)?;
        self.running.take(owner, 1);
        Some((owner, waiter))
    }
}

impl Drop for SearchPlace {
    fn drop(&mut self) {
        self.threads.lock().running.give_back(self.owner, 1);
        self.threads.start_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::UserId;
    use crate::http::blocking::blocking;
    use std::sync::OnceLock;

    const EVE: Option<ShareOwner> = Some(ShareOwner::User(UserId(1)));
    const BOB: Option<ShareOwner> = Some(ShareOwner::User(UserId(2)));

    /// A runtime with one thread that may block.
    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).build().unwrap()
    }

    /// A search that waits for the gate.
    async fn gated(threads: Arc<SearchThreads>, gate: Arc<OnceLock<()>>, number: usize) -> usize {
        let search = move || {
            gate.wait();
            number
        };
        threads.run(EVE, search).await.unwrap()
    }

    #[test]
    fn sixty_searches_of_one_user_delay_neither_reads_nor_searches_of_another() {
        let (gate, threads) = (Arc::new(OnceLock::new()), Arc::new(SearchThreads::default()));
        runtime().block_on(async {
            let search = |number| tokio::spawn(gated(Arc::clone(&threads), Arc::clone(&gate), number));
            let searches: Vec<_> = (0..60).map(search).collect();
            while threads.lock().waiting.len() < 60 - SEARCHES {
                tokio::task::yield_now().await;
            }
            assert_eq!(blocking(|| 7).await.unwrap(), 7, "a read of another user");
            assert_eq!(threads.run(BOB, || 8).await.unwrap(), 8, "a search of another user");
            assert_eq!(threads.lock().running.total(), SEARCHES);
            gate.set(()).unwrap();
            for (number, search) in searches.into_iter().enumerate() {
                assert_eq!(search.await.unwrap(), number);
            }
        });
        let state = threads.lock();
        assert!(state.running.total() == 0 && state.running.of(EVE) == 0 && state.waiting.is_empty());
    }

    #[test]
    fn the_number_of_waiting_searches_of_a_user_is_bounded() {
        let threads = Arc::new(SearchThreads::default());
        let turns: Vec<_> = (0..SEARCHES + WAITING).map(|_| threads.enter(EVE).unwrap()).collect();
        assert!(matches!(threads.enter(EVE), Err(ApiError::TooMany { .. })));
        assert!(threads.enter(BOB).is_ok());
        drop(turns);
        assert!(threads.enter(EVE).is_ok(), "clients that have left do not wait");
    }

    #[test]
    fn a_search_that_panics_frees_its_thread() {
        let threads = Arc::new(SearchThreads::default());
        runtime().block_on(async {
            for _ in 0..4 {
                let lost = threads.run(EVE, || -> u8 { panic!("it falls over") }).await;
                assert!(matches!(lost, Err(ApiError::Internal)));
            }
            assert_eq!(threads.run(EVE, || 1).await.unwrap(), 1);
        });
    }
}
