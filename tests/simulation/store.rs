//! The store port of one process: every operation is a point for faults, a dead process gets no answer, and
//! the oracle records acknowledged writes. Contains the flaws that the simulation must detect.

use super::client_records::Used;
use super::process_faults::ProcessFaults;
use super::world::{Flaw, World};
use nanoclaw::domain::approval::ApprovalDecision;
use nanoclaw::domain::event::{Event, Record, SequencedEvent};
use nanoclaw::domain::id::{JobId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::{History, Job, JobOutcome, JobSpec};
use nanoclaw::domain::message::Message;
use nanoclaw::domain::tool::ToolCall;
use nanoclaw::ports::{
    CancelToken, ChangeWatch, Clock, DecidedJob, EventPage, Fence, Idempotent, JobChangeError, JobPage,
    JobQuery, Lease, LeaseError, NewJob, NodeStore, Store, StoreError, SubmitError, Ticket, Urgency,
};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sits between engine and store.
pub(crate) struct SimStore {
    world: Arc<World>,
    inner: Arc<dyn NodeStore>,
    faults: Arc<ProcessFaults>,
    /// A claim had an unknown outcome.
    lost_claims: AtomicBool,
    /// Acknowledged but not yet written ([`Flaw::EarlyAck`]).
    late: Mutex<Vec<(Fence, Vec<Record>)>>,
    /// Seen but not yet written ([`Flaw::SplitEnd`]).
    early_ends: Mutex<BTreeMap<JobId, Event>>,
}

impl SimStore {
    pub(crate) fn new(world: &Arc<World>, inner: &Arc<dyn NodeStore>, faults: &Arc<ProcessFaults>) -> Self {
        Self {
            world: Arc::clone(world),
            inner: Arc::clone(inner),
            faults: Arc::clone(faults),
            lost_claims: AtomicBool::new(false),
            late: Mutex::default(),
            early_ends: Mutex::default(),
        }
    }

    /// Whether a job may be leased without the oracle's knowledge.
    pub(crate) fn lost_claims(&self) -> bool {
        self.lost_claims.load(Ordering::SeqCst)
    }

    fn alive<E: From<StoreError>>(&self) -> Result<(), E> {
        if self.faults.is_dead() { Err(StoreError::Closed.into()) } else { Ok(()) }
    }

    /// Sends a write of this process.
    pub(crate) fn write<T, E: From<StoreError> + PartialEq + Debug>(
        &self,
        what: &str,
        send: impl FnOnce(&dyn NodeStore) -> Ticket<T, E>,
    ) -> Result<T, E> {
        self.world.point();
        self.world.at_write();
        self.catch_up();
        self.alive::<E>()?;
        let result = self.faults.strike_during(|| send(&*self.inner).wait());
        self.world.tell(|| format!("{what}: {:?}, dead: {}", result.as_ref().err(), self.faults.is_dead()));
        self.world.at_write();
        self.alive::<E>()?;
        if result.as_ref().is_err_and(|error| *error == E::from(StoreError::Closed)) {
            self.world.oracle(|oracle| oracle.blame("the store closed unexpectedly".to_owned()));
        }
        result
    }

    /// A read that may fail.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&dyn NodeStore) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.catch_up();
        self.alive::<StoreError>()?;
        if !self.world.is_calm() && self.world.chance(60) {
            return Err(StoreError::Io("a sector that cannot be read".to_owned()));
        }
        self.faults.strike_during(|| read(&*self.inner))
    }

    /// The job without its webhook if the flaw is [`Flaw::LosesMail`].
    fn flawed(&self, mut job: NewJob) -> NewJob {
        if self.world.flaw == Flaw::LosesMail {
            job.spec.webhook_url = None;
        }
        job
    }

    fn catch_up(&self) {
        let late = std::mem::take(&mut *self.late.lock().unwrap());
        if self.alive::<StoreError>().is_ok() {
            for (fence, records) in late {
                drop(self.inner.append(fence, records, Urgency::Now).wait());
            }
        }
    }

    fn end(
        &self,
        fence: Fence,
        ending: JobOutcome,
        send: impl FnOnce(&dyn NodeStore, JobOutcome) -> Ticket<(), LeaseError>,
    ) -> Result<(), LeaseError> {
        if self.world.flaw == Flaw::SplitEnd {
            self.early_ends.lock().unwrap().insert(fence.job, ending.event.clone());
            // A following reader sees the end at once.
            self.world.oracle(|oracle| oracle.read(self, fence.job, 100_000));
            self.world.point();
        }
        self.world.oracle(|oracle| oracle.lets_go(fence.job));
        let result = self.write(&format!("finish {}", fence.job), |store| send(store, ending));
        self.early_ends.lock().unwrap().remove(&fence.job);
        result
    }

    fn leave(&self, fence: Fence, result: Result<(), LeaseError>, has_ended: bool) -> Ticket<(), LeaseError> {
        if result.is_ok() {
            self.world.oracle(|oracle| oracle.left(fence.job, has_ended));
        }
        Ticket::resolved(result)
    }
}

impl Store for SimStore {
    fn submit(&self, jobs: Vec<NewJob>) -> Ticket<Vec<Job>, SubmitError> {
        Ticket::resolved(self.write("submit", |store| {
            let now_ms = self.world.clock.now_ms();
            self.world.oracle(|oracle| jobs.iter().for_each(|job| oracle.offer(job, now_ms)));
            store.submit(jobs.into_iter().map(|job| self.flawed(job)).collect())
        }))
    }

    fn submit_once(&self, job: NewJob, key: IdempotencyKey) -> Ticket<Idempotent<Job>, SubmitError> {
        Ticket::resolved(self.write("submit once", |store| {
            let (now_ms, leaps) = (self.world.clock.now_ms(), self.world.clock.leaps());
            let processes = self.world.oracle(|oracle| {
                oracle.offer(&job, now_ms);
                oracle.client_records.offer_once(&Used { user: job.user, key, leaps }, job.id);
                oracle.counts.crashes + oracle.counts.restarts
            });
            let mut key = key;
            if self.world.flaw == Flaw::ForgetsKeys {
                key.key[31] = u8::try_from(processes % 256).unwrap();
            }
            store.submit_once(self.flawed(job), key)
        }))
    }

    fn defer(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        self.world.oracle(|oracle| oracle.lets_go(fence.job));
        let mut until_ms = 0;
        let result = self.write(&format!("defer {}", fence.job), |store| {
            until_ms = self.world.clock.now_ms() + delay_ms;
            store.defer(fence, reason, if self.world.flaw == Flaw::Hasty { 0 } else { delay_ms })
        });
        if result.is_ok() {
            self.world.oracle(|oracle| oracle.deferred(fence.job, until_ms));
        }
        self.leave(fence, result, false)
    }

    fn postpone(&self, fence: Fence, reason: String, delay_ms: u64) -> Ticket<(), LeaseError> {
        self.world.oracle(|oracle| oracle.lets_go(fence.job));
        let mut until_ms = 0;
        let result = self.write(&format!("postpone {}", fence.job), |store| {
            until_ms = self.world.clock.now_ms() + delay_ms;
            store.postpone(fence, reason, if self.world.flaw == Flaw::Hasty { 0 } else { delay_ms })
        });
        if result.is_ok() {
            self.world.oracle(|oracle| oracle.postponed(fence.job, until_ms));
        }
        self.leave(fence, result, false)
    }

    fn wait_for_approval(
        &self,
        fence: Fence,
        calls: Vec<ToolCall>,
        timeout_ms: u64,
    ) -> Ticket<(), LeaseError> {
        self.world.oracle(|oracle| oracle.lets_go(fence.job));
        let mut until_ms = 0;
        let result = self.write(&format!("await approval {}", fence.job), |store| {
            until_ms = self.world.clock.now_ms() + timeout_ms;
            store.wait_for_approval(fence, calls, timeout_ms)
        });
        if result.is_ok() {
            self.world.oracle(|oracle| oracle.requested_approval(fence.job, until_ms));
        }
        self.leave(fence, result, false)
    }

    fn decide(
        &self,
        user: UserId,
        job: JobId,
        decision: ApprovalDecision,
    ) -> Ticket<Option<DecidedJob>, JobChangeError> {
        Ticket::resolved(
            self.write(&format!("decide {job}: {decision:?}"), |store| store.decide(user, job, decision)),
        )
    }

    fn delete(&self, user: UserId, job: JobId) -> Ticket<bool, JobChangeError> {
        Ticket::resolved(self.write(&format!("delete {job}"), |store| store.delete(user, job)))
    }

    fn retry(&self, user: UserId, job: JobId) -> Ticket<Option<Job>, JobChangeError> {
        Ticket::resolved(self.write(&format!("retry {job}"), |store| {
            self.world.oracle(|oracle| oracle.retries(job));
            store.retry(user, job)
        }))
    }

    fn claim(&self, max: usize) -> Ticket<Vec<Lease>> {
        let mut was_sent = false;
        let result = self.write("claim", |store| {
            was_sent = true;
            self.world.oracle(|oracle| oracle.claims_at(self.world.clock.now_ms()));
            store.claim(max)
        });
        match &result {
            Ok(leases) => self.world.oracle(|oracle| {
                self.world
                    .tell(|| format!("leases {:?}", leases.iter().map(|l| l.job.id).collect::<Vec<_>>()));
                for lease in leases {
                    oracle.claimed(&*self.inner, lease, self.world.clock.now_ms());
                }
            }),
            Err(_) => drop(self.lost_claims.fetch_or(was_sent, Ordering::SeqCst)),
        }
        Ticket::resolved(result)
    }

    fn append(&self, fence: Fence, records: Vec<Record>, urgency: Urgency) -> Ticket<(), LeaseError> {
        if urgency == Urgency::Soon && self.world.lingers() {
            self.world.point();
            return match self.alive() {
                Ok(()) => self.inner.append(fence, records, urgency),
                Err(error) => Ticket::resolved(Err(error)),
            };
        }
        if self.world.flaw == Flaw::EarlyAck {
            self.catch_up();
            self.late.lock().unwrap().push((fence, records));
            self.world.point();
            return Ticket::resolved(self.alive());
        }
        Ticket::resolved(
            self.write(&format!("append {}", fence.job), |store| store.append(fence, records, urgency)),
        )
    }

    fn finish(&self, fence: Fence, records: Vec<Record>, ending: JobOutcome) -> Ticket<(), LeaseError> {
        let result = self.end(fence, ending, |store, ending| store.finish(fence, records, ending));
        self.leave(fence, result, true)
    }

    fn finish_and_claim(
        &self,
        fence: Fence,
        records: Vec<Record>,
        ending: JobOutcome,
    ) -> (Result<(), LeaseError>, Option<Lease>) {
        let (mut claims, mut lease) = (false, None);
        let result = self.end(fence, ending, |store, ending| {
            claims = true;
            self.world.oracle(|oracle| oracle.claims_at(self.world.clock.now_ms()));
            let (ended, found) = store.finish_and_claim(fence, records, ending);
            lease = found;
            Ticket::resolved(ended)
        });
        let ended = self.leave(fence, result, true).wait();
        if self.faults.is_dead() {
            self.lost_claims.fetch_or(claims, Ordering::SeqCst);
            return (ended, None);
        }
        // The commit that failed may have leased a job.
        self.lost_claims.fetch_or(claims && ended.is_err() && lease.is_none(), Ordering::SeqCst);
        if let Some(lease) = &lease {
            self.world.tell(|| format!("leases {:?} with it", lease.job.id));
            let now_ms = self.world.clock.now_ms();
            self.world.oracle(|oracle| oracle.claimed(&*self.inner, lease, now_ms));
        }
        (ended, lease)
    }

    fn release(&self, fence: Fence) -> Ticket<(), LeaseError> {
        self.world.oracle(|oracle| oracle.lets_go(fence.job));
        let result = self.write(&format!("release {}", fence.job), |store| store.release(fence));
        self.leave(fence, result, false)
    }

    fn cancel(&self, user: UserId, job: JobId) -> Ticket<Option<Job>> {
        Ticket::resolved(self.write(&format!("cancel {job}"), |store| store.cancel(user, job)))
    }

    fn end_due(&self) -> Ticket<bool> {
        Ticket::resolved(self.write("end due jobs", |store| store.end_due()))
    }

    fn probe(&self) -> Ticket<()> {
        Ticket::resolved(self.write("probe", |store| store.probe()))
    }

    fn job(&self, user: UserId, job: JobId) -> Result<Option<Job>, StoreError> {
        self.read(|store| store.job(user, job))
    }

    fn output(&self, job: JobId) -> Result<Option<String>, StoreError> {
        self.read(|store| store.output(job))
    }

    fn input(&self, job: JobId) -> Result<Option<Vec<Message>>, StoreError> {
        self.read(|store| store.input(job))
    }

    fn request(&self, user: UserId, job: JobId) -> Result<Option<JobSpec>, StoreError> {
        self.read(|store| store.request(user, job))
    }

    fn jobs(&self, query: &JobQuery) -> Result<JobPage, StoreError> {
        self.read(|store| store.jobs(query))
    }

    fn is_known(&self, user: UserId, key: &[u8; 32]) -> Result<bool, StoreError> {
        self.read(|store| store.is_known(user, key))
    }

    fn unfinished_count(&self, user: UserId, limit: u64) -> Result<u64, StoreError> {
        self.read(|store| store.unfinished_count(user, limit))
    }

    fn events(&self, job: JobId, after: u64, max: usize) -> Result<EventPage, StoreError> {
        let mut page = self.read(|store| store.events(job, after, max))?;
        let early = self.early_ends.lock().unwrap().get(&job).cloned();
        if let Some(event) = early.filter(|_| page.events.last().is_none_or(|last| last.seq == page.last_seq))
        {
            page.last_seq += 1;
            page.events.push(SequencedEvent::new(page.last_seq, event));
        }
        Ok(page)
    }

    fn step_text(&self, job: JobId, first_seq: u64, up_to: u64) -> Result<String, StoreError> {
        self.read(|store| store.step_text(job, first_seq, up_to))
    }

    fn log(&self, job: JobId) -> Result<Vec<Record>, StoreError> {
        self.read(|store| store.log(job))
    }

    fn history(&self, job: &Job, max: usize) -> Result<History, StoreError> {
        self.read(|store| store.history(job, max))
    }

    fn watch(&self, job: JobId) -> ChangeWatch {
        self.inner.watch(job)
    }

    fn claim_next(&self, _: &CancelToken, _: Duration) -> Result<Option<Lease>, StoreError> {
        Ok(self.claim(1).wait()?.pop())
    }
}
