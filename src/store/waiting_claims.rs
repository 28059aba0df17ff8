//! Workers that wait for a job. The writer leases ready jobs to them in the transaction that makes these
//! ready, so that submission and claim share a commit.

use crate::domain::fair_share::Holdings;
use crate::domain::id::UserId;
use crate::ports::{CancelToken, Clock, Lease, StoreError};
use crate::store::queue_length::QueueLength;
use crate::store::rows::lease::Leases;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

/// Interval at which a waiting worker checks its cancel token.
const CHECK_CANCEL_EVERY: Duration = Duration::from_millis(500);

/// The claims of waiting workers, and whether there is anything to claim.
#[derive(Debug, Default)]
pub(crate) struct WaitingClaims(Mutex<ClaimState>);

#[derive(Debug, Default)]
struct ClaimState {
    /// Claims that the writer has not taken; the newest is last.
    waiting: Vec<WaitingClaim>,
    /// Results that their workers have not fetched, by claim.
    results: HashMap<u64, Result<Lease, StoreError>>,
    last_id: u64,
    /// A claim has joined since the writer last took all.
    has_joined: bool,
    queue: PublishedQueue,
    is_closed: bool,
}

/// The queue as of the last commit.
#[derive(Debug, Default)]
pub(crate) struct PublishedQueue {
    pub(crate) length: QueueLength,
    /// Running jobs of each user.
    pub(crate) running: Holdings<UserId>,
}

impl PublishedQueue {
    /// The queue and the leases after a commit.
    pub(crate) fn new(length: QueueLength, leases: &Leases) -> Self {
        let mut running = Holdings::default();
        for leased in leases.values() {
            running.take(leased.row.job.user, 1);
        }
        Self { length, running }
    }
}

/// A worker's claim. The writer returns each one that it takes: with [`WaitingClaims::resolve`],
/// [`WaitingClaims::fail`] or [`WaitingClaims::put_back`].
#[derive(Debug)]
pub(crate) struct WaitingClaim {
    id: u64,
    worker: Thread,
    /// The worker has nothing to do.
    is_idle: bool,
}

impl WaitingClaims {
    /// The queue as it stands after a commit.
    pub(crate) fn publish(&self, queue: PublishedQueue) {
        self.lock().queue = queue;
    }

    /// Takes the newest claim of a worker that has nothing to do, if no job waits for it and the queue passes
    /// `admits`. The caller returns it with [`WaitingClaims::settle`].
    pub(crate) fn take_idle(
        &self,
        now_ms: u64,
        admits: impl FnOnce(&PublishedQueue) -> bool,
    ) -> Option<WaitingClaim> {
        let mut state = self.lock();
        let at = state.waiting.iter().rposition(|claim| claim.is_idle)?;
        (!state.may_have_work(now_ms) && admits(&state.queue)).then(|| state.waiting.remove(at))
    }

    /// Whether a claim could find something at `now_ms`.
    pub(crate) fn may_have_work(&self, now_ms: u64) -> bool {
        self.lock().may_have_work(now_ms)
    }

    /// Waits for a lease until the token is cancelled or the timeout has passed. Calls `wake_writer` if there
    /// may be work already. Blocks its thread; unparking it makes it check the token at once.
    pub(crate) fn wait(
        &self,
        stop: &CancelToken,
        timeout: Duration,
        clock: &dyn Clock,
        wake_writer: impl FnOnce(),
    ) -> Result<Option<Lease>, StoreError> {
        let began_ms = clock.monotonic_ms();
        let id = self.join(true)?;
        if self.may_have_work(clock.now_ms()) {
            wake_writer();
        }
        loop {
            let waited = Duration::from_millis(clock.monotonic_ms().saturating_sub(began_ms));
            let left = timeout.saturating_sub(waited);
            if left.is_zero() || stop.reason().is_some() {
                return self.leave(id);
            }
            if let Some(result) = self.fetch(id, false) {
                return result;
            }
            std::thread::park_timeout(left.min(CHECK_CANCEL_EVERY));
        }
    }

    /// Adds a claim of this thread, which the next commit serves. `is_idle`: the thread waits for nothing
    /// else. Returns the claim's id.
    pub(crate) fn join(&self, is_idle: bool) -> Result<u64, StoreError> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(StoreError::Closed);
        }
        state.last_id = state.last_id.wrapping_add(1);
        state.has_joined = true;
        let claim = WaitingClaim { id: state.last_id, worker: std::thread::current(), is_idle };
        state.waiting.push(claim);
        Ok(state.last_id)
    }

    /// Ends a claim: its lease, if the writer has one for it. Blocks while the writer works on it.
    pub(crate) fn leave(&self, id: u64) -> Result<Option<Lease>, StoreError> {
        loop {
            if let Some(result) = self.fetch(id, true) {
                return result;
            }
            // The writer has taken the claim and resolves it soon.
            std::thread::park_timeout(CHECK_CANCEL_EVERY);
        }
    }

    /// The result of a claim. `None`: it still waits, or the writer has taken it.
    fn fetch(&self, id: u64, gives_up: bool) -> Option<Result<Option<Lease>, StoreError>> {
        let mut state = self.lock();
        if let Some(result) = state.results.remove(&id) {
            return Some(result.map(Some));
        }
        let at = state.waiting.iter().position(|claim| claim.id == id).filter(|_| gives_up)?;
        state.waiting.remove(at);
        Some(Ok(None))
    }

    /// Takes all waiting claims, the newest last.
    pub(crate) fn take(&self) -> Vec<WaitingClaim> {
        let mut state = self.lock();
        state.has_joined = false;
        std::mem::take(&mut state.waiting)
    }

    /// Hands leases to taken claims, to the newest first, because its thread is the warmest. Claims that are
    /// left over wait again.
    pub(crate) fn resolve(&self, mut claims: Vec<WaitingClaim>, leases: Vec<Lease>) {
        for lease in leases {
            // A transaction claims no more jobs than there are claims.
            let Some(claim) = claims.pop() else { break };
            self.settle(&claim, Ok(lease));
        }
        self.put_back(claims, false);
    }

    /// Fails taken claims.
    pub(crate) fn fail(&self, claims: Vec<WaitingClaim>, error: &StoreError) {
        for claim in claims {
            self.settle(&claim, Err(error.clone()));
        }
    }

    /// Resolves a taken claim.
    pub(crate) fn settle(&self, claim: &WaitingClaim, result: Result<Lease, StoreError>) {
        self.lock().results.insert(claim.id, result);
        claim.worker.unpark();
    }

    /// Lets taken claims wait again. `are_unserved`: no transaction has looked for their jobs.
    pub(crate) fn put_back(&self, mut claims: Vec<WaitingClaim>, are_unserved: bool) {
        if claims.is_empty() && !are_unserved {
            return;
        }
        let mut state = self.lock();
        state.has_joined |= are_unserved;
        claims.append(&mut state.waiting);
        state.waiting = claims;
    }

    /// Whether a claim joined too late for the last transaction, which left ready jobs behind.
    pub(crate) fn has_unserved(&self) -> bool {
        let state = self.lock();
        state.has_joined && state.queue.length.ready > 0 && !state.waiting.is_empty()
    }

    /// Time until a delayed job is due for a waiting claim.
    pub(crate) fn due_in(&self, now_ms: u64) -> Option<Duration> {
        let state = self.lock();
        let due_ms = state.queue.length.due_ms.filter(|_| !state.waiting.is_empty())?;
        Some(Duration::from_millis(due_ms.saturating_sub(now_ms)))
    }

    /// Fails all waiting and later claims: the writer has ended.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.fail(self.take(), &StoreError::Closed);
    }

    fn lock(&self) -> MutexGuard<'_, ClaimState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClaimState {
    fn may_have_work(&self, now_ms: u64) -> bool {
        let QueueLength { ready, due_ms, .. } = self.queue.length;
        ready > 0 || due_ms.is_some_and(|due_ms| due_ms <= now_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::system::SystemClock;
    use crate::domain::id::{JobId, UserId};
    use crate::domain::job::{Job, JobSpec};
    use crate::domain::message::Message;
    use crate::ports::CancelReason;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const LONG: Duration = Duration::from_secs(20);

    fn ready(ready: u64, due_ms: Option<u64>) -> PublishedQueue {
        let length = QueueLength { ready, due_ms, unfinished: ready };
        PublishedQueue { length, ..PublishedQueue::default() }
    }

    fn token() -> CancelToken {
        CancelToken::new(Arc::new(SystemClock::new()))
    }

    fn lease(number: u128) -> Lease {
        let spec = JobSpec::new("demo".to_owned(), vec![Message::user("hello".to_owned())], 15, 60);
        let job = Job::queued(JobId::from_bits(number), UserId(1), 1, &spec);
        Lease { job, spec: Arc::new(spec), cancel: token(), is_in_memory: false }
    }

    fn until(condition: impl Fn() -> bool) {
        while !condition() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn k_leases_wake_k_of_many_waiting_workers_and_the_others_wait_on() {
        let (claims, leased, stop) =
            (Arc::new(WaitingClaims::default()), Arc::new(AtomicUsize::new(0)), token());
        let workers: Vec<_> = (0..8)
            .map(|_| {
                let (claims, leased, stop) = (Arc::clone(&claims), Arc::clone(&leased), stop.clone());
                std::thread::spawn(move || {
                    let found = claims
                        .wait(&stop, LONG, &SystemClock::new(), || unreachable!("there is no work yet"));
                    leased.fetch_add(usize::from(found.unwrap().is_some()), Ordering::SeqCst);
                })
            })
            .collect();
        until(|| claims.lock().waiting.len() == 8);
        let taken = claims.take();
        claims.resolve(taken, vec![lease(1), lease(2), lease(3)]);
        until(|| leased.load(Ordering::SeqCst) == 3);
        assert_eq!(claims.lock().waiting.len(), 5);
        stop.cancel(CancelReason::Shutdown);
        for worker in workers {
            worker.thread().unpark();
            worker.join().unwrap();
        }
        assert_eq!(leased.load(Ordering::SeqCst), 3);
        assert!(claims.lock().waiting.is_empty(), "who gave up claims no more");
    }

    #[test]
    fn a_worker_that_gives_up_while_the_writer_holds_its_claim_still_gets_the_lease() {
        let (claims, stop) = (Arc::new(WaitingClaims::default()), token());
        let worker = std::thread::spawn({
            let (claims, stop) = (Arc::clone(&claims), stop.clone());
            move || claims.wait(&stop, LONG, &SystemClock::new(), || {})
        });
        until(|| claims.lock().waiting.len() == 1);
        let taken = claims.take();
        stop.cancel(CancelReason::Shutdown);
        worker.thread().unpark();
        claims.resolve(taken, vec![lease(7)]);
        let found = worker.join().unwrap().unwrap();
        assert_eq!(
            found.map(|lease| lease.job.id),
            Some(JobId::from_bits(7)),
            "no lease is without a worker"
        );
    }

    #[test]
    fn a_claim_that_ends_brings_its_lease_or_none() {
        let claims = WaitingClaims::default();
        let (served, unserved) = (claims.join(true).unwrap(), claims.join(true).unwrap());
        assert!(claims.leave(unserved).unwrap().is_none());
        claims.resolve(claims.take(), vec![lease(3)]);
        let found = claims.leave(served).unwrap();
        assert_eq!(found.map(|lease| lease.job.id), Some(JobId::from_bits(3)));
        assert!(claims.lock().waiting.is_empty() && claims.lock().results.is_empty());
    }

    #[test]
    fn a_claim_that_joins_during_a_transaction_is_served_by_the_next_one() {
        let claims = WaitingClaims::default();
        claims.join(true).unwrap();
        assert!(!claims.may_have_work(0));
        let taken = claims.take();
        claims.publish(ready(1, None));
        claims.resolve(taken, Vec::new());
        assert!(!claims.has_unserved(), "a transaction has looked, and its user may run no more");
        claims.join(true).unwrap();
        assert!(claims.may_have_work(0) && claims.has_unserved());
        claims.put_back(claims.take(), true);
        assert!(claims.has_unserved(), "the transaction failed");
    }

    #[test]
    fn a_delayed_job_is_due_only_for_a_waiting_worker() {
        let claims = WaitingClaims::default();
        claims.publish(ready(0, Some(30)));
        assert_eq!(claims.due_in(10), None);
        claims.join(true).unwrap();
        assert!(!claims.may_have_work(29));
        assert_eq!(claims.due_in(10), Some(Duration::from_millis(20)));
        assert_eq!(claims.due_in(31), Some(Duration::ZERO));
        assert!(claims.may_have_work(30));
    }

    #[test]
    fn waiting_and_later_claims_fail_when_the_writer_ends() {
        let claims = Arc::new(WaitingClaims::default());
        let worker = std::thread::spawn({
            let (claims, stop) = (Arc::clone(&claims), token());
            move || claims.wait(&stop, LONG, &SystemClock::new(), || {})
        });
        until(|| claims.lock().waiting.len() == 1);
        claims.close();
        assert_eq!(worker.join().unwrap().map(drop), Err(StoreError::Closed));
        assert_eq!(
            claims.wait(&token(), LONG, &SystemClock::new(), || {}).map(drop),
            Err(StoreError::Closed)
        );
    }

    #[test]
    fn a_wait_without_work_ends_at_its_timeout() {
        let found =
            WaitingClaims::default().wait(&token(), Duration::from_millis(10), &SystemClock::new(), || {});
        assert!(found.unwrap().is_none());
    }
}
