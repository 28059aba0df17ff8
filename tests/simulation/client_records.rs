//! What clients know about keys, batches, schedules and webhooks, and their invariants.

use super::batches::KnownBatch;
use super::client_actions::MARK;
use super::known_job::Known;
use super::oracle::Oracle;
use crate::support::store::{ANN, BOB};
use nanoclaw::domain::batch::Batch;
use nanoclaw::domain::id::{BatchId, DeliveryId, JobId, ScheduleId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::job::Job;
use nanoclaw::domain::job_filter::JobFilter;
use nanoclaw::domain::schedule::Schedule;
use nanoclaw::domain::timing::Timing;
use nanoclaw::domain::webhook::{Delivery, DeliveryState, WebhookSubject};
use nanoclaw::ports::{BatchError, DeliveryQuery, Idempotent, JobQuery, NewBatch, NodeStore, SubmitError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// A page limit above all counts.
const ALL: usize = 100_000;

/// The records of all clients.
#[derive(Debug, Default)]
pub(crate) struct ClientRecords {
    keys: BTreeMap<(UserId, [u8; 32]), Key>,
    pub(crate) batches: BTreeMap<BatchId, KnownBatch>,
    pub(crate) touched: BTreeSet<BatchId>,
    schedules: BTreeMap<ScheduleId, KnownSchedule>,
    /// All deliveries ever seen, by subject: the store drops settled ones after a month.
    deliveries: BTreeMap<(u8, u128), BTreeSet<DeliveryId>>,
    settled: BTreeSet<DeliveryId>,
    /// See [`super::world::Flaw::LosesLine`].
    pub(crate) loses_a_line: bool,
    pub(crate) wrong: Vec<String>,
}

/// One use of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Used {
    pub(crate) user: UserId,
    pub(crate) key: IdempotencyKey,
    /// Leaps of the clock before this use.
    pub(crate) leaps: u64,
}

/// The known facts about a key: the requests sent with it, each with the clock leaps before it, and the
/// result.
#[derive(Debug, Default)]
struct Key {
    sent: Vec<(u128, u64)>,
    made: Option<(u128, u64, [u8; 32])>,
}

#[derive(Debug)]
struct KnownSchedule {
    user: UserId,
    is_accepted: bool,
    runs: u64,
    last_due_ms: Option<u64>,
}

fn key_of(subject: WebhookSubject) -> (u8, u128) {
    (u8::from(matches!(subject, WebhookSubject::Batch(_))), subject.bits())
}

impl Key {
    /// Records a result for this key and checks that it is the only one.
    fn hear(&mut self, made: u128, leaps: u64, fingerprint: [u8; 32], is_new: bool) -> Option<&'static str> {
        let before = self.made.replace((made, leaps, fingerprint)).filter(|(_, then, _)| *then == leaps);
        if !self.sent.iter().any(|(sent, _)| *sent == made) {
            return Some("returns something that it was never used for");
        }
        match before {
            Some((_, _, other)) if other != fingerprint => Some("is accepted for another request"),
            Some((old, _, _)) if old != made || is_new => Some("took effect twice"),
            _ => None,
        }
    }

    fn refuse(&self, leaps: u64, fingerprint: [u8; 32]) -> Option<&'static str> {
        let made = self.made.filter(|(_, then, _)| *then == leaps);
        made.filter(|(_, _, own)| *own == fingerprint).map(|_| "is refused for its own request")
    }

    /// Checks that at most one request between two clock leaps took effect.
    fn check(&self, is_there: impl Fn(u128) -> bool) -> Option<&'static str> {
        let there: Vec<_> = self.sent.iter().filter(|(sent, _)| is_there(*sent)).collect();
        let leaps: BTreeSet<_> = there.iter().map(|(_, leaps)| leaps).collect();
        if leaps.len() < there.len() { Some("took effect more than once") } else { None }
    }
}

impl ClientRecords {
    fn key(&mut self, used: &Used) -> &mut Key {
        self.keys.entry((used.user, used.key.key)).or_default()
    }

    /// `outcome`: what was made and whether it is new, or whether the key was refused.
    fn hear(&mut self, used: &Used, outcome: Result<(u128, bool), bool>, what: &dyn Debug) {
        let (leaps, key) = (used.leaps, used.key);
        let book = self.key(used);
        let wrong = match outcome {
            Ok((made, is_new)) => book.hear(made, leaps, key.fingerprint, is_new),
            Err(true) => book.refuse(leaps, key.fingerprint),
            Err(false) => None,
        };
        if let Some(wrong) = wrong {
            let book = format!("{book:?}");
            self.wrong.push(format!("key {} {wrong}: {what:?} {book}", key.key[0]));
        }
    }

    /// A job with a key is sent to the store.
    pub(crate) fn offer_once(&mut self, used: &Used, job: JobId) {
        self.key(used).sent.push((u128::from_be_bytes(job.to_bytes()), used.leaps));
    }

    /// The client has the response.
    pub(crate) fn heard_once(
        &mut self,
        used: &Used,
        offered: JobId,
        outcome: &Result<Idempotent<Job>, SubmitError>,
    ) {
        let bits = |job: &Job| u128::from_be_bytes(job.id.to_bytes());
        let made = match outcome {
            Ok(Idempotent::New(job)) => Ok((bits(job), true)),
            Ok(Idempotent::Replayed(job)) => Ok((bits(job), false)),
            Err(error) => Err(*error == SubmitError::KeyReused),
        };
        self.hear(used, made, &(offered, outcome));
    }

    /// A client starts to upload a batch.
    pub(crate) fn offer_batch(&mut self, new: &NewBatch) {
        let known = KnownBatch {
            user: new.user,
            lines: new.lines,
            concurrency: new.concurrency,
            is_hooked: new.webhook_url.is_some(),
            is_sent: false,
            is_accepted: false,
            has_ended: false,
            is_cancelled: false,
            started: usize::MAX,
            ended: Vec::new(),
        };
        self.batches.insert(new.id, known);
    }

    /// The upload is complete, and its acceptance is sent to the store.
    pub(crate) fn send_batch(&mut self, batch: BatchId, used: Option<&Used>) {
        self.touched.insert(batch);
        if let Some(known) = self.batches.get_mut(&batch) {
            known.is_sent = true;
        }
        if let Some(used) = used {
            self.key(used).sent.push((u128::from_be_bytes(batch.to_bytes()), used.leaps));
        }
    }

    /// The client has the response.
    pub(crate) fn heard_batch(
        &mut self,
        batch: BatchId,
        used: Option<&Used>,
        outcome: &Result<Idempotent<Batch>, BatchError>,
    ) {
        let made = match outcome {
            Ok(Idempotent::New(batch)) => Ok((batch.id, true)),
            Ok(Idempotent::Replayed(batch)) => Ok((batch.id, false)),
            Err(error) => Err(*error == BatchError::KeyReused),
        };
        if let Ok((made, _)) = made
            && let Some(known) = self.batches.get_mut(&made)
        {
            known.is_accepted = true;
        }
        let has_other = made.is_ok_and(|(made, _)| made != batch);
        let refused = matches!(outcome, Err(BatchError::KeyReused | BatchError::QueueFull { .. }));
        if let Some(known) = self.batches.get_mut(&batch).filter(|_| has_other || refused) {
            known.is_sent = false;
        }
        if let Some(used) = used {
            let made = made.map(|(made, is_new)| (u128::from_be_bytes(made.to_bytes()), is_new));
            self.hear(used, made, &(batch, outcome));
        }
    }

    /// Whether lines of this batch may become jobs.
    pub(crate) fn may_run(&self, batch: BatchId) -> bool {
        self.batches.get(&batch).is_some_and(|known| known.is_sent)
    }

    /// Whether this job may come from a schedule.
    pub(crate) fn may_fire(&self, job: &Job) -> bool {
        let mark = job.metadata.get(MARK);
        mark.is_some_and(|mark| self.schedules.keys().any(|schedule| schedule.to_string() == *mark))
    }

    /// The owner of the batch.
    pub(crate) fn owner(&self, batch: BatchId) -> Option<UserId> {
        self.batches.get(&batch).map(|known| known.user)
    }

    /// Every schedule, with its owner.
    pub(crate) fn schedules(&self) -> Vec<(UserId, ScheduleId)> {
        self.schedules.iter().map(|(id, known)| (known.user, *id)).collect()
    }

    /// A schedule is sent to the store.
    pub(crate) fn offer_schedule(&mut self, user: UserId, id: ScheduleId) {
        let known = KnownSchedule { user, is_accepted: false, runs: 0, last_due_ms: None };
        self.schedules.insert(id, known);
    }

    /// Its client has the 201.
    pub(crate) fn accept_schedule(&mut self, id: ScheduleId) {
        if let Some(known) = self.schedules.get_mut(&id) {
            known.is_accepted = true;
        }
    }

    /// A delivery is settled permanently.
    pub(crate) fn settled(&mut self, delivery: DeliveryId) {
        self.settled.insert(delivery);
    }

    fn meet_delivery(&mut self, delivery: &Delivery) -> bool {
        if delivery.state == DeliveryState::Pending && self.settled.contains(&delivery.id) {
            self.wrong.push(format!("a settled delivery is due again: {delivery:?}"));
        }
        self.deliveries.entry(key_of(delivery.subject)).or_default().insert(delivery.id)
    }

    fn deliveries(&self, subject: WebhookSubject) -> usize {
        self.deliveries.get(&key_of(subject)).map_or(0, BTreeSet::len)
    }
}

/// All jobs of both users, as a client may list them.
pub(crate) fn list(store: &dyn NodeStore) -> Option<Vec<Job>> {
    let mut jobs = Vec::new();
    for user in [ANN, BOB] {
        jobs.extend(
            store
                .jobs(&JobQuery { user, status: None, filter: JobFilter::NONE, before: None, limit: ALL })
                .ok()?
                .jobs,
        );
    }
    Some(jobs)
}

impl Oracle {
    /// A job that has ended, or only one that has failed.
    pub(crate) fn some_ended(&self, at: u64, has_failed: bool) -> Option<(UserId, JobId)> {
        let is_wanted = |known: &Known| known.has_ended && (known.has_failed || !has_failed);
        let ended: Vec<_> = self.jobs.iter().filter(|(_, known)| is_wanted(known)).collect();
        let at = usize::try_from(at).unwrap().checked_rem(ended.len())?;
        ended.get(at).map(|(id, known)| (known.user, **id))
    }

    /// A delivery was read.
    pub(crate) fn met_delivery(&mut self, delivery: &Delivery) {
        let is_new = self.client_records.meet_delivery(delivery);
        self.counts.reports += u64::from(is_new);
        let has_end = match delivery.subject {
            WebhookSubject::Job(job) => self.jobs.get(&job).is_none_or(|known| known.is_hooked),
            WebhookSubject::Batch(batch) => {
                self.client_records.batches.get(&batch).is_some_and(|known| known.is_hooked)
            }
        };
        if !has_end {
            self.blame(format!("no webhook was requested for {delivery:?}"));
        }
    }

    /// Checks the records against the store.
    pub(crate) fn check_books(&mut self, store: &dyn NodeStore) {
        let Some(jobs) = list(store) else { return };
        for job in &jobs {
            if !self.jobs.contains_key(&job.id) && !self.may_make(job) {
                self.blame(format!("no client submitted {job:?}"));
            }
            self.meet(job);
        }
        self.check_keys(store, &jobs);
        self.check_occurrences(store, &jobs);
        let batches: Vec<_> = self.client_records.batches.keys().copied().collect();
        for batch in batches {
            self.check_batch(store, batch);
            self.check_lines(store, batch, &jobs);
        }
        self.check_reports(store);
        self.violations.append(&mut self.client_records.wrong);
    }

    fn check_keys(&mut self, store: &dyn NodeStore, jobs: &[Job]) {
        let mut there: BTreeSet<u128> =
            jobs.iter().map(|job| u128::from_be_bytes(job.id.to_bytes())).collect();
        for (id, known) in &self.client_records.batches {
            let bits = u128::from_be_bytes(id.to_bytes());
            // Batches have a separate key space here, because their numbers equal those of jobs.
            if store.batch(known.user, *id).is_ok_and(|row| row.is_some()) {
                there.insert(bits | BATCH_BIT);
            }
        }
        for ((user, name), key) in &self.client_records.keys {
            let space = if name[0] >= 100 { BATCH_BIT } else { 0 };
            if let Some(wrong) = key.check(|bits| there.contains(&(bits | space))) {
                self.violations.push(format!("key {} of {user:?} {wrong}: {key:?}", name[0]));
            }
        }
    }

    /// Checks that each end has exactly one delivery.
    fn check_reports(&mut self, store: &dyn NodeStore) {
        for user in [ANN, BOB] {
            let query = DeliveryQuery { user, state: None, before: None, limit: ALL };
            let Ok(page) = store.deliveries(&query) else { return };
            page.deliveries.iter().for_each(|delivery| self.met_delivery(delivery));
        }
        let mut wrong = Vec::new();
        for (id, known) in &self.jobs {
            let Ok(page) = store.events(*id, 0, ALL) else { continue };
            let ends = page.events.iter().filter(|event| event.event.is_terminal()).count();
            let deliveries = self.client_records.deliveries(WebhookSubject::Job(*id));
            if deliveries != if known.is_hooked { ends } else { 0 } {
                wrong.push(format!("{id} has ended {ends} times and has {deliveries} deliveries"));
            }
        }
        for (id, known) in &self.client_records.batches {
            let retries = usize::try_from(self.retries_of(*id)).unwrap();
            let deliveries = self.client_records.deliveries(WebhookSubject::Batch(*id));
            let (min, max) = (usize::from(known.has_ended), usize::from(known.has_ended) + retries);
            if known.is_hooked && !(min..=max).contains(&deliveries) {
                wrong.push(format!("{id} has {deliveries} deliveries: {known:?}"));
            }
        }
        self.violations.extend(wrong);
    }

    /// Checks the schedules against the store.
    pub(crate) fn check_schedules(&mut self, store: &dyn NodeStore) {
        if let Some(jobs) = list(store) {
            self.check_occurrences(store, &jobs);
        }
    }

    fn check_occurrences(&mut self, store: &dyn NodeStore, jobs: &[Job]) {
        let mut wrong = Vec::new();
        for (id, known) in &mut self.client_records.schedules {
            let Ok(row) = store.schedule(known.user, *id) else { continue };
            let Some((standing, _)) = row else {
                if known.is_accepted || known.runs > 0 {
                    wrong.push(format!("{id} is lost"));
                }
                continue;
            };
            let mark = id.to_string();
            let made = jobs.iter().filter(|job| job.metadata.get(MARK) == Some(&mark)).count() as u64;
            self.counts.occurrences += standing.schedule.runs.saturating_sub(known.runs);
            wrong.extend(known.check(&standing.schedule, made));
        }
        self.violations.extend(wrong);
    }
}

/// Separates batch numbers from job numbers.
const BATCH_BIT: u128 = 1 << 127;

impl KnownSchedule {
    fn check(&mut self, now: &Schedule, made: u64) -> Option<String> {
        let is_once = matches!(now.timing, Timing::At(_));
        let wrong = if now.runs != made {
            "has a number of jobs that differs from its runs"
        } else if now.runs < self.runs || (is_once && now.runs > 1) {
            "has lost runs or fired too often"
        } else if now.runs == self.runs + 1
            && self.last_due_ms.is_some()
            && now.last_due_ms == self.last_due_ms
        {
            "has fired twice for one due time"
        } else {
            (self.runs, self.last_due_ms) = (now.runs, now.last_due_ms);
            return None;
        };
        Some(format!("{} {wrong}: {now:?}, jobs: {made}", now.id))
    }
}
