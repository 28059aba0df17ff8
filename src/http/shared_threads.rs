//! Threads that clients share: those for reads that may block, and those for long work of one kind, such as
//! searches. No handler starts blocking work without saying whose it is: the waiting client with the fewest
//! pieces of work under way goes first, so nobody waits behind the queue of another client.

use super::error::ApiError;
use super::shares::ShareOwner;
use crate::domain::fair_share::{FairShare, Holdings};
use crate::domain::limits::Limits;
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Pieces of blocking work of one client at the same time: reads of the store and the disk, and large bodies.
const READS: usize = 12;
/// Searches of one client at the same time.
const SEARCHES: usize = 2;
/// Programs of one MCP client at the same time; the sandbox has slots of its own.
const MCP_PROGRAMS: usize = 8;
/// Searches, or programs, of one client that wait.
const MOST_WAITING: usize = 64;
/// Password hashes of one client at the same time. Each takes 19 MiB and a core.
const PASSWORD_HASHES: usize = 1;
/// Logins of one client that wait.
const WAITING_LOGINS: usize = 32;

/// Writes of one user that each fill a commit, such as lines of a batch, at the same time: what others write
/// waits for that commit.
const LARGE_WRITES: usize = 1;
/// Pages with results of batches that one user reads at the same time. Each takes a core.
const RESULT_PAGES: usize = 2;
/// Batches of one user whose files are written at the same time.
const RESULT_FILES: usize = 1;

/// Threads that take the place of HTTP threads which wait for a row of a database.
const REPLACEMENTS: usize = 16;

/// Threads of the runtime that may block: one for each place of every kind, so none waits for another.
pub(crate) const BLOCKING_THREADS: usize = FairShare::of(READS).places()
    + FairShare::of(SEARCHES).places()
    + FairShare::of(MCP_PROGRAMS).places()
    + FairShare::of(RESULT_PAGES).places()
    + FairShare::of(PASSWORD_HASHES).places()
    + REPLACEMENTS;

type BlockingResult = Box<dyn Any + Send>;

/// The threads, and who waits for them. They are threads of the runtime, which has enough for all kinds.
#[derive(Debug)]
pub(crate) struct SharedThreads {
    /// The name of the work in errors: `searches`.
    work: &'static str,
    share: FairShare,
    /// Pieces of work of one client that may wait.
    most_waiting: usize,
    state: Mutex<SharedThreadsState>,
}

#[derive(Debug, Default)]
struct SharedThreadsState {
    running: Holdings<Option<ShareOwner>>,
    /// By client, without clients that wait for nothing; those of one client in order of arrival.
    waiting: HashMap<Option<ShareOwner>, VecDeque<ThreadWaiter>>,
    arrivals: u64,
}

#[derive(Debug)]
struct ThreadWaiter {
    arrival: u64,
    turn: oneshot::Sender<ThreadPlace>,
}

/// The right to run one piece of work; the next one begins when it is dropped.
#[derive(Debug)]
pub(crate) struct ThreadPlace {
    threads: Arc<SharedThreads>,
    owner: Option<ShareOwner>,
}

/// A client's share of the threads.
#[derive(Debug, Clone)]
pub(crate) struct ThreadShare {
    threads: Arc<SharedThreads>,
    owner: Option<ShareOwner>,
}

impl ThreadShare {
    /// Runs `act` when it is the client's turn; never when the caller is dropped before. It continues when
    /// the caller is dropped later. A panic is [`ApiError::Internal`].
    pub(crate) fn run<T, F>(&self, act: F) -> impl Future<Output = Result<T, ApiError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        // Log lines there carry the id of the request.
        let span = tracing::Span::current();
        let act: Box<dyn FnOnce() -> BlockingResult + Send> = Box::new(move || Box::new(span.in_scope(act)));
        let result = self.clone().run_boxed(act);
        async move { Ok(*result.await?.downcast().map_err(|_| ApiError::Internal)?) }
    }

    /// Runs `act` when it is the client's turn, although nobody waits for it. Without a runtime the process
    /// is ending.
    pub(crate) fn run_later(&self, act: impl FnOnce() + Send + 'static) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (work, result) = (self.threads.work, self.run(act));
        drop(runtime.spawn(async move {
            if let Err(error) = result.await {
                tracing::error!(%error, work, "work after a request was not done");
            }
        }));
    }

    async fn run_boxed(
        self,
        act: Box<dyn FnOnce() -> BlockingResult + Send>,
    ) -> Result<BlockingResult, ApiError> {
        let place = self.threads.turn(self.owner).await?;
        let work = move || {
            let result = act();
            drop(place);
            result
        };
        tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::Internal)
    }
}

impl SharedThreads {
    /// For reads and all other short work. A request waits for one piece at a time.
    pub(crate) fn for_reads(limits: &Limits) -> Arc<Self> {
        Self::new("requests", READS, limits.connections)
    }

    /// For searches.
    pub(crate) fn for_searches() -> Arc<Self> {
        Self::new("searches", SEARCHES, MOST_WAITING)
    }

    /// For programs that MCP clients run.
    pub(crate) fn for_programs() -> Arc<Self> {
        Self::new("programs", MCP_PROGRAMS, MOST_WAITING)
    }

    /// For pages with results of batches. Every client with a request may wait.
    pub(crate) fn for_result_pages() -> Arc<Self> {
        Self::new("results", RESULT_PAGES, usize::MAX)
    }

    /// For password hashes.
    pub(crate) fn for_passwords() -> Arc<Self> {
        Self::new("logins", PASSWORD_HASHES, WAITING_LOGINS)
    }

    /// Threads for so many pieces of work of one client at the same time. The reserve of the others is beside
    /// them. Of one client so many pieces may wait.
    fn new(work: &'static str, regular: usize, most_waiting: usize) -> Arc<Self> {
        let share = FairShare::of(regular);
        Arc::new(Self { work, share, most_waiting, state: Mutex::default() })
    }

    /// Turns to write the files of a batch, whose reads have threads of their own. Every batch may wait.
    pub(crate) fn for_result_files() -> Arc<Self> {
        Self::new("batches", RESULT_FILES, usize::MAX)
    }

    /// Turns to write much to the store. Every client with a request may wait.
    pub(crate) fn for_large_writes() -> Arc<Self> {
        Self::new("large writes", LARGE_WRITES, usize::MAX)
    }

    /// Waits for the client's turn, which lasts as long as the returned value lives.
    pub(crate) async fn turn(self: &Arc<Self>, owner: Option<ShareOwner>) -> Result<ThreadPlace, ApiError> {
        self.enter(owner)?.await.map_err(|_| ApiError::Internal)
    }

    /// The share of a client.
    pub(crate) fn of(self: &Arc<Self>, owner: Option<ShareOwner>) -> ThreadShare {
        ThreadShare { threads: Arc::clone(self), owner }
    }

    fn enter(
        self: &Arc<Self>,
        owner: Option<ShareOwner>,
    ) -> Result<oneshot::Receiver<ThreadPlace>, ApiError> {
        let (sender, turn) = oneshot::channel();
        if !self.lock().wait(owner, self.most_waiting, sender) {
            let (work, most) = (self.work, self.most_waiting);
            let message = format!("{most} {work} of yours wait already; try again when some have ended");
            return Err(ApiError::TooMany { message, retry_after_s: 1 });
        }
        self.start_next();
        Ok(turn)
    }

    /// Gives free places to those who wait: the client with the fewest first.
    fn start_next(self: &Arc<Self>) {
        loop {
            // The lock is released at once: a waiter that has left drops its place, which takes it again.
            let next = self.lock().next(self.share);
            let Some((owner, turn)) = next else { break };
            drop(turn.send(ThreadPlace { threads: Arc::clone(self), owner }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, SharedThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedThreadsState {
    /// Returns whether the client may wait.
    fn wait(&mut self, owner: Option<ShareOwner>, most: usize, turn: oneshot::Sender<ThreadPlace>) -> bool {
        let waiting = self.waiting.entry(owner).or_default();
        if waiting.len() >= most {
            waiting.retain(|waiter| !waiter.turn.is_closed());
        }
        let has_room = waiting.len() < most;
        if has_room {
            waiting.push_back(ThreadWaiter { arrival: self.arrivals, turn });
            self.arrivals = self.arrivals.saturating_add(1);
        }
        has_room
    }

    /// Takes the next waiter and counts its work as running: of the clients with the fewest running the first
    /// to come.
    fn next(&mut self, share: FairShare) -> Option<(Option<ShareOwner>, oneshot::Sender<ThreadPlace>)> {
        self.waiting.retain(|_, waiting| {
            while waiting.front().is_some_and(|waiter| waiter.turn.is_closed()) {
                waiting.pop_front();
            }
            !waiting.is_empty()
        });
        let rank = |owner: Option<ShareOwner>, waiting: &VecDeque<ThreadWaiter>| {
            (self.running.of(owner), waiting.front().map_or(u64::MAX, |waiter| waiter.arrival))
        };
        let (owner, _) = self.waiting.iter().min_by_key(|(owner, waiting)| rank(**owner, waiting))?;
        let owner = *owner;
        if !share.admits(self.running.of(owner), self.running.total()) {
            return None;
        }
        let waiter = self.waiting.get_mut(&owner)?.pop_front()?;
        self.running.take(owner, 1);
        Some((owner, waiter.turn))
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
    use std::sync::OnceLock;

    const EVE: Option<ShareOwner> = Some(ShareOwner::User(UserId(1)));
    const BOB: Option<ShareOwner> = Some(ShareOwner::User(UserId(2)));

    /// A runtime with a thread for each search.
    fn runtime() -> tokio::runtime::Runtime {
        let threads = FairShare::of(SEARCHES).places();
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        runtime.worker_threads(1).max_blocking_threads(threads).build().unwrap()
    }

    #[test]
    fn sixty_searches_of_one_user_delay_no_search_of_another() {
        let (gate, threads) = (Arc::new(OnceLock::new()), SharedThreads::for_searches());
        runtime().block_on(async {
            let search = |number| {
                let gate = Arc::clone(&gate);
                tokio::spawn(threads.of(EVE).run(move || {
                    gate.wait();
                    number
                }))
            };
            let searches: Vec<_> = (0..60).map(search).collect();
            while threads.lock().waiting.get(&EVE).map_or(0, VecDeque::len) < 60 - SEARCHES {
                tokio::task::yield_now().await;
            }
            assert_eq!(threads.of(BOB).run(|| 8).await.unwrap(), 8, "a search of another user");
            assert_eq!(threads.lock().running.total(), SEARCHES);
            gate.set(()).unwrap();
            for (number, search) in searches.into_iter().enumerate() {
                assert_eq!(search.await.unwrap().unwrap(), number);
            }
        });
        let state = threads.lock();
        assert!(state.running.total() == 0 && state.running.of(EVE) == 0 && state.waiting.is_empty());
    }

    #[test]
    fn the_number_of_waiting_searches_of_a_user_is_bounded() {
        let threads = SharedThreads::for_searches();
        let turns: Vec<_> = (0..SEARCHES + MOST_WAITING).map(|_| threads.enter(EVE).unwrap()).collect();
        assert!(matches!(threads.enter(EVE), Err(ApiError::TooMany { .. })));
        assert!(threads.enter(BOB).is_ok());
        drop(turns);
        assert!(threads.enter(EVE).is_ok(), "clients that have left do not wait");
    }

    #[test]
    fn of_users_with_as_many_searches_the_first_to_come_goes_first() {
        let (cay, dan) = (Some(ShareOwner::User(UserId(3))), Some(ShareOwner::User(UserId(4))));
        let threads = SharedThreads::for_searches();
        let mut eve: Vec<_> = (0..4).map(|_| threads.enter(EVE).unwrap()).collect();
        let mut others: Vec<_> = [BOB, cay, dan].map(|owner| threads.enter(owner).unwrap()).into();
        assert!(others[0].try_recv().is_ok_and(|place| place.owner == BOB), "it was free again at once");
        let held = (eve[0].try_recv().unwrap(), others[1].try_recv().unwrap());
        assert!(others[2].try_recv().is_err() && eve[2].try_recv().is_err(), "all are taken");
        drop(held.0);
        assert_eq!(others[2].try_recv().unwrap().owner, dan, "before the older ones of eve");
    }

    #[test]
    fn a_large_write_waits_for_one_of_the_same_user_and_for_no_others() {
        let writes = SharedThreads::for_large_writes();
        let mut eve: Vec<_> = (0..2).map(|_| writes.enter(EVE).unwrap()).collect();
        let first = eve[0].try_recv().unwrap();
        assert!(writes.enter(BOB).unwrap().try_recv().is_ok());
        assert!(eve[1].try_recv().is_err());
        drop(first);
        assert!(eve[1].try_recv().is_ok());
    }

    #[test]
    fn a_search_that_panics_frees_its_thread() {
        let threads = SharedThreads::for_searches();
        runtime().block_on(async {
            for _ in 0..4 {
                let lost = threads.of(EVE).run(|| -> u8 { panic!("it falls over") }).await;
                assert!(matches!(lost, Err(ApiError::Internal)));
            }
            assert_eq!(threads.of(EVE).run(|| vec![1]).await.unwrap(), vec![1]);
        });
    }
}
