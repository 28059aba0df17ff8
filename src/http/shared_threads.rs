//! Threads for long work of one kind, which users share: a search or a program takes seconds, and other
//! requests need the threads that may block.

use super::error::ApiError;
use super::shares::ShareOwner;
use crate::domain::fair_share::{FairShare, Holdings};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Pieces of work of one client that wait.
const WAITING: usize = 64;

/// The threads, and who waits for them.
#[derive(Debug)]
pub(crate) struct SharedThreads {
    /// The name of the work in errors: `searches`.
    work: &'static str,
    share: FairShare,
    state: Mutex<SharedThreadsState>,
}

#[derive(Debug, Default)]
struct SharedThreadsState {
    running: Holdings<Option<ShareOwner>>,
    /// In order of arrival.
    waiting: VecDeque<(Option<ShareOwner>, oneshot::Sender<ThreadPlace>)>,
}

/// The right to run one piece of work; the next one begins when it is dropped.
#[derive(Debug)]
struct ThreadPlace {
    threads: Arc<SharedThreads>,
    owner: Option<ShareOwner>,
}

impl SharedThreads {
    /// Threads for so many pieces of work of one client at the same time. The reserve of the others is beside
    /// them.
    pub(crate) fn new(work: &'static str, regular: usize) -> Arc<Self> {
        Arc::new(Self { work, share: FairShare::of(regular), state: Mutex::default() })
    }

    /// Runs `act` when it is the client's turn. It continues when the caller is dropped.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, owner: Option<ShareOwner>, act: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let place = self.enter(owner)?.await.map_err(|_| ApiError::Internal)?;
        let (sender, done) = oneshot::channel();
        let span = tracing::Span::current();
        let work = move || {
            let result = span.in_scope(act);
            drop(place);
            // The client may have left.
            drop(sender.send(result));
        };
        std::thread::Builder::new().name(self.work.to_owned()).spawn(work).map_err(|error| {
            tracing::warn!(%error, work = self.work, "cannot start a thread");
            ApiError::Internal
        })?;
        // A panic drops the sender.
        done.await.map_err(|_| ApiError::Internal)
    }

    fn enter(
        self: &Arc<Self>,
        owner: Option<ShareOwner>,
    ) -> Result<oneshot::Receiver<ThreadPlace>, ApiError> {
        let (sender, turn) = oneshot::channel();
        let mut state = self.lock();
        state.waiting.retain(|(_, waiter)| !waiter.is_closed());
        if state.waiting.iter().filter(|(other, _)| *other == owner).count() >= WAITING {
            let work = self.work;
            let message = format!("{WAITING} {work} of yours wait already; try again when some have ended");
            return Err(ApiError::TooMany { message, retry_after_s: 1 });
        }
        state.waiting.push_back((owner, sender));
        drop(state);
        self.start_next();
        Ok(turn)
    }

    /// Gives free places to those who wait: the client with the fewest first.
    fn start_next(self: &Arc<Self>) {
        loop {
            // The lock is released at once: a waiter that has left drops its place, which takes it again.
            let next = self.lock().next(self.share);
            let Some((owner, waiter)) = next else { break };
            drop(waiter.send(ThreadPlace { threads: Arc::clone(self), owner }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedThreadsState {
    /// Takes the next waiter and counts its work as running.
    fn next(&mut self, share: FairShare) -> Option<(Option<ShareOwner>, oneshot::Sender<ThreadPlace>)> {
        self.waiting.retain(|(_, waiter)| !waiter.is_closed());
        let at = self.running.next(share, self.waiting.iter().map(|(owner, _)| *owner))?;
        let (owner, waiter) = self.waiting.remove(at)?;
        self.running.take(owner, 1);
        Some((owner, waiter))
    }
}

impl Drop for ThreadPlace {
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

    const SEARCHES: usize = 2;
    const EVE: Option<ShareOwner> = Some(ShareOwner::User(UserId(1)));
    const BOB: Option<ShareOwner> = Some(ShareOwner::User(UserId(2)));

    /// A runtime with one thread that may block.
    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).max_blocking_threads(1).build().unwrap()
    }

    /// A search that waits for the gate.
    async fn gated(threads: Arc<SharedThreads>, gate: Arc<OnceLock<()>>, number: usize) -> usize {
        let search = move || {
            gate.wait();
            number
        };
        threads.run(EVE, search).await.unwrap()
    }

    #[test]
    fn sixty_searches_of_one_user_delay_neither_reads_nor_searches_of_another() {
        let (gate, threads) = (Arc::new(OnceLock::new()), SharedThreads::new("searches", SEARCHES));
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
        let threads = SharedThreads::new("searches", SEARCHES);
        let turns: Vec<_> = (0..SEARCHES + WAITING).map(|_| threads.enter(EVE).unwrap()).collect();
        assert!(matches!(threads.enter(EVE), Err(ApiError::TooMany { .. })));
        assert!(threads.enter(BOB).is_ok());
        drop(turns);
        assert!(threads.enter(EVE).is_ok(), "clients that have left do not wait");
    }

    #[test]
    fn a_search_that_panics_frees_its_thread() {
        let threads = SharedThreads::new("searches", SEARCHES);
        runtime().block_on(async {
            for _ in 0..4 {
                let lost = threads.run(EVE, || -> u8 { panic!("it falls over") }).await;
                assert!(matches!(lost, Err(ApiError::Internal)));
            }
            assert_eq!(threads.run(EVE, || 1).await.unwrap(), 1);
        });
    }
}
