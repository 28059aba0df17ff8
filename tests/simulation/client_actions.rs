//! Client actions beside plain submissions: keys, retries, batches and schedules; and webhook deliveries
//! that may fail.

use super::client_records::Used;
use super::server_process::ServerProcess;
use super::world::World;
use crate::support::store::{ANN, BOB, job};
use nanoclaw::domain::delivery_turns::DeliveryTurns;
use nanoclaw::domain::id::{BatchId, ScheduleId, UserId};
use nanoclaw::domain::idempotency::IdempotencyKey;
use nanoclaw::domain::schedule::{Schedule, ScheduledRequest};
use nanoclaw::domain::timing::Timing;
use nanoclaw::domain::webhook::{AfterAttempt, DeliveryAttempt, WebhookUrl};
use nanoclaw::ports::{Clock, Idempotent, JobChangeError, NewBatch, NewJob, NewLine, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Few keys, so that they repeat.
const KEYS: u64 = 2;
const LINES: u64 = 7;
/// The first key of batches.
const BATCH_KEYS: u8 = 100;
/// The metadata field of scheduled jobs with the id of their schedule.
pub(crate) const MARK: &str = "schedule";

impl World {
    /// Performs a random client action.
    pub(crate) fn act(self: &Arc<Self>) {
        match self.roll(30) {
            26..=29 => drop(self.decide_one()),
            0..=5 => self.submit_once(),
            6..=10 => self.retry(),
            11..=14 => self.batch(),
            15 => self.cancel_batch(),
            16..=18 => self.deliver(),
            19 | 20 => self.schedule(),
            _ => {
                self.clock.advance(self.roll(20_000));
                self.process().keep_time();
                let process = self.process();
                self.oracle(|oracle| oracle.check_schedules(&*process.store));
            }
        }
    }

    /// A random webhook URL, or none.
    pub(crate) fn hook(&self) -> Option<WebhookUrl> {
        let url = format!("https://host-{}.example/hook", self.roll(3));
        self.chance(3).then(|| WebhookUrl::try_from(url).unwrap())
    }

    fn someone(&self) -> UserId {
        if self.chance(2) { ANN } else { BOB }
    }

    fn key(&self, first: u8) -> IdempotencyKey {
        let name = first + u8::try_from(self.roll(KEYS)).unwrap();
        // Sometimes a key is reused for another request.
        IdempotencyKey { key: [name; 32], fingerprint: [u8::from(self.chance(8)); 32] }
    }

    /// Submits a job with one of the few keys.
    pub(crate) fn submit_once(self: &Arc<Self>) {
        let user = self.someone();
        let (new, key, process) = (self.draft(user), self.key(0), self.process());
        let offered = new.id;
        let outcome = process.sim_store.submit_once(new, key).wait();
        let sent = Used { user, key, leaps: self.clock.leaps() };
        self.oracle(|oracle| {
            oracle.client_records.heard_once(&sent, offered, &outcome);
            if let Ok(Idempotent::New(job) | Idempotent::Replayed(job)) = &outcome {
                oracle.counts.repeated_keys += u64::from(job.id != offered);
                oracle.accept(job.id);
            }
        });
    }

    /// Retries a failed job, and sometimes one that has not failed.
    pub(crate) fn retry(self: &Arc<Self>) {
        let (at, has_failed) = (self.roll(1_000), !self.chance(6));
        let Some((user, job)) = self.oracle(|oracle| oracle.some_ended(at, has_failed)) else { return };
        let process = self.process();
        let outcome = process.sim_store.retry(user, job).wait();
        self.tell(|| format!("retry {job}: {outcome:?}"));
        let was_done = match &outcome {
            Ok(row) => Some(row.is_some()),
            Err(JobChangeError::WrongState { .. } | JobChangeError::QueueFull { .. }) => Some(false),
            Err(_) => None,
        };
        self.oracle(|oracle| oracle.retried(job, was_done));
    }

    /// Fills a batch in pieces and accepts it, like one HTTP request, which ends with the process.
    fn batch(self: &Arc<Self>) {
        let number = u128::from(self.next_batch.fetch_add(1, Ordering::SeqCst));
        let lines = 1 + u32::try_from(self.roll(LINES)).unwrap();
        let new = NewBatch {
            id: BatchId::from_bits(number),
            user: self.someone(),
            created_at_ms: self.clock.now_ms(),
            lines,
            concurrency: 1 + u32::try_from(self.roll(4)).unwrap(),
            webhook_url: self.hook(),
            expires_at_ms: None,
            source: None,
        };
        let process = self.process();
        self.oracle(|oracle| oracle.client_records.offer_batch(&new));
        let mut first = 0;
        while first < lines {
            let piece = (1 + u32::try_from(self.roll(4)).unwrap()).min(lines - first);
            let new_lines = (first..first + piece).map(|line| self.line(line)).collect();
            let is_filled = process
                .sim_store
                .write("fill", |store| store.fill((new.user, new.id), first, new_lines))
                .is_ok();
            first += piece;
            if !is_filled || self.chance(12) {
                drop(process.sim_store.write("abandon", |store| store.abandon(new.id)));
                return;
            }
        }
        self.accept(&process, new);
    }

    fn accept(self: &Arc<Self>, process: &Arc<ServerProcess>, new: NewBatch) {
        let (id, user) = (new.id, new.user);
        let key = self.chance(2).then(|| self.key(BATCH_KEYS));
        let sent = || key.map(|key| Used { user, key, leaps: self.clock.leaps() });
        let outcome = process.sim_store.write(&format!("accept {id}"), |store| {
            self.oracle(|oracle| {
                oracle.is_mixed = true;
                oracle.client_records.send_batch(id, sent().as_ref());
            });
            store.accept(new, key)
        });
        self.oracle(|oracle| oracle.client_records.heard_batch(id, sent().as_ref(), &outcome));
        if outcome.is_err() {
            drop(process.sim_store.write("abandon", |store| store.abandon(id)));
        }
    }

    fn line(&self, line: u32) -> NewLine {
        let mut spec = job(u128::from(line), ANN).spec;
        spec.max_steps = 1;
        spec.max_attempts = 1 + u32::try_from(self.roll(2)).unwrap();
        spec.webhook_url = self.hook();
        NewLine { custom_id: format!("line-{line}"), spec }
    }

    fn cancel_batch(self: &Arc<Self>) {
        let number = 1 + self.roll(self.next_batch.load(Ordering::SeqCst));
        let batch = BatchId::from_bits(u128::from(number));
        let process = self.process();
        let Some(user) = self.oracle(|oracle| oracle.client_records.owner(batch)) else { return };
        let stranger = if user == ANN { BOB } else { ANN };
        let outcome = process.sim_store.write("cancel batch", |store| store.cancel_batch(stranger, batch));
        if let Ok(Some(row)) = outcome {
            self.oracle(|oracle| oracle.blame(format!("another user has cancelled {row:?}")));
        }
        let outcome = process.sim_store.write(&format!("cancel {batch}"), |store| {
            self.oracle(|oracle| oracle.doubt_batch(batch));
            store.cancel_batch(user, batch)
        });
        if let Ok(Some(row)) = outcome {
            self.oracle(|oracle| oracle.cancelled_batch(&row, &*process.store));
        }
    }

    /// Reads due deliveries and settles them with a random outcome.
    fn deliver(self: &Arc<Self>) {
        let process = self.process();
        let now_ms = self.clock.now_ms();
        let due = process
            .sim_store
            .read(|store| store.due(now_ms, 3, &DeliveryTurns::default()))
            .unwrap_or_default();
        // A nested call may settle the second delivery meanwhile, so the state that was read counts.
        for delivery in &due {
            self.oracle(|oracle| oracle.met_delivery(delivery));
        }
        for delivery in due {
            let next = match self.roll(4) {
                0 => AfterAttempt::Retry { at_ms: self.clock.now_ms() + self.roll(60_000) },
                1 => AfterAttempt::Dead,
                _ => AfterAttempt::Delivered,
            };
            let attempt = DeliveryAttempt { status: Some(200), error: None, next };
            let settled = process.sim_store.write("settle", |store| store.settle(delivery.id, attempt));
            if settled.is_ok() && !matches!(next, AfterAttempt::Retry { .. }) {
                self.oracle(|oracle| oracle.client_records.settled(delivery.id));
            }
        }
    }

    fn schedule(self: &Arc<Self>) {
        let (user, now_ms) = (self.someone(), self.clock.now_ms());
        let number = self.next_job.fetch_add(1, Ordering::SeqCst);
        let timing = match self.roll(3) {
            0 => Timing::At(now_ms + self.roll(500)),
            _ => Timing::Every { seconds: 1 + self.roll(30), anchor_ms: now_ms },
        };
        let NewJob { mut spec, .. } = job(u128::from(number), user);
        spec.max_steps = 1;
        spec.webhook_url = self.hook();
        let id = ScheduleId::from_bits(u128::from(number));
        spec.metadata.insert(MARK.to_owned(), id.to_string());
        let schedule = Schedule {
            id,
            user,
            name: None,
            next_run_ms: timing.first(now_ms),
            timing,
            created_at_ms: now_ms,
            armed_at_ms: now_ms,
            last_due_ms: None,
            last_run_ms: None,
            last_job: None,
            runs: 0,
            model_tokens: None,
            last_skip: None,
            recomputed_ms: None,
            is_paused: false,
        };
        let process = self.process();
        let outcome = process.sim_store.write("put schedule", |store| {
            self.oracle(|oracle| {
                oracle.is_mixed = true;
                oracle.client_records.offer_schedule(user, id);
            });
            store.put(schedule, ScheduledRequest { spec, given: serde_json::Map::new() }, 100)
        });
        if outcome.is_ok() {
            self.oracle(|oracle| oracle.client_records.accept_schedule(id));
        }
    }
}
