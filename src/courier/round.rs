//! The courier: one delivery from due to settled. Owns which one is next (one at a time for each host, hosts in turn) and
//! that nothing is sent while something sent is not written down; refuses to know threads.

use super::post::{Answer, Parcel, Post, PostError};
use super::retry::{self, Moment};
use super::signature::Signer;
use crate::domain::id::DeliveryId;
use crate::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt};
use crate::ports::{CancelToken, Clock, Entropy, Measurement, Meter, Outbox, Payload, Payloads, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hosts among which the next one is chosen.
const CHOICE: usize = 64;
/// Hosts whose last turn is remembered; then all are forgotten, which costs nobody more than a turn.
const REMEMBERED: usize = 1_024;
/// The shortest wait for what is due: it may be waiting for its host.
const WAIT_MIN_MS: u64 = 500;
/// The longest wait: clocks jump.
const WAIT_MAX_MS: u64 = 5_000;

/// What a courier needs.
#[derive(Clone)]
pub struct Parts {
    /// What is to be sent.
    pub outbox: Arc<dyn Outbox>,
    /// What it says.
    pub payloads: Arc<dyn Payloads>,
    /// How it is sent.
    pub post: Arc<dyn Post>,
    /// How it is signed.
    pub signer: Signer,
    /// When.
    pub clock: Arc<dyn Clock>,
    /// For the jitter.
    pub entropy: Arc<dyn Entropy>,
    /// Who counts tries.
    pub meter: Arc<dyn Meter>,
}

/// What a tick came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Nothing is due for a host that is free.
    Idle,
    /// This one was tried.
    Tried(DeliveryId),
}

/// Shared by all threads that deliver.
pub struct Courier {
    parts: Parts,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Hosts that a delivery is under way to.
    busy: BTreeSet<String>,
    /// The last turn of each host.
    served: BTreeMap<String, u64>,
    turn: u64,
    /// Attempts that the store failed to record.
    unrecorded: Vec<(DeliveryId, DeliveryAttempt)>,
    /// A thread is recording them.
    is_recording: bool,
}

impl Courier {
    /// A courier with nothing under way.
    pub fn new(parts: Parts) -> Self {
        Self { parts, state: Mutex::new(State::default()) }
    }

    /// Tries one delivery, if one is due. Fails when the store does; what was sent is then written down before anything
    /// else is sent, so that a full disk does not make a receiver hear the same every second.
    pub fn tick(&self) -> Result<Round, StoreError> {
        if !self.record_pending()? {
            return Ok(Round::Idle);
        }
        let Some(errand) = self.take()? else { return Ok(Round::Idle) };
        let id = errand.delivery.id;
        let attempt = self.attempt(&errand.delivery)?;
        report(&errand.delivery, &attempt);
        self.parts.meter.record(Measurement::WebhookTried(word(attempt.next)));
        let settled = self.parts.outbox.settle(id, attempt.clone()).wait();
        match settled {
            // Its row cannot be read any more: there is nowhere to write to, now or later.
            Ok(()) | Err(StoreError::Corrupt(_)) => Ok(Round::Tried(id)),
            Err(error) => {
                self.lock().unrecorded.push((id, attempt));
                Err(error)
            }
        }
    }

    /// Waits until a tick may find something, or `stop` is raised.
    pub fn wait(&self, stop: &CancelToken) {
        let now_ms = self.parts.clock.now_ms();
        let until_ms = match self.parts.outbox.next_due_ms() {
            Ok(Some(due_ms)) => due_ms.saturating_sub(now_ms).clamp(WAIT_MIN_MS, WAIT_MAX_MS),
            Ok(None) | Err(_) => WAIT_MAX_MS,
        };
        self.parts.outbox.wait_for_deliveries(stop, Duration::from_millis(until_ms));
    }

    /// Waits a moment after a failure of the store.
    pub fn recover(&self, stop: &CancelToken) {
        self.parts.clock.sleep(stop, Duration::from_millis(WAIT_MIN_MS));
    }

    /// Records attempts that the store refused earlier, without the lock: the other threads go on meanwhile. `false`
    /// while another thread does this.
    fn record_pending(&self) -> Result<bool, StoreError> {
        let mut pending = {
            let mut state = self.lock();
            if state.is_recording {
                return Ok(false);
            }
            state.is_recording = !state.unrecorded.is_empty();
            std::mem::take(&mut state.unrecorded)
        };
        let mut outcome = Ok(true);
        while let Some((id, attempt)) = pending.last().cloned() {
            match self.parts.outbox.settle(id, attempt).wait() {
                Ok(()) | Err(StoreError::Corrupt(_)) => drop(pending.pop()),
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let mut state = self.lock();
        state.is_recording = false;
        state.unrecorded.append(&mut pending);
        outcome
    }

    /// The oldest delivery of the free host that has waited longest for its turn.
    fn take(&self) -> Result<Option<Errand<'_>>, StoreError> {
        let mut state = self.lock();
        let due = self.parts.outbox.due(self.parts.clock.now_ms(), CHOICE, &state.busy)?;
        let turn_of = |d: &Delivery| state.served.get(&d.url.host_and_port()).copied().unwrap_or(0);
        let Some(delivery) = due.into_iter().min_by_key(turn_of) else { return Ok(None) };
        let host = delivery.url.host_and_port();
        state.busy.insert(host.clone());
        if state.served.len() >= REMEMBERED {
            state.served.clear();
        }
        state.turn = state.turn.saturating_add(1);
        let turn = state.turn;
        state.served.insert(host.clone(), turn);
        Ok(Some(Errand { courier: self, delivery, host }))
    }

    fn attempt(&self, delivery: &Delivery) -> Result<DeliveryAttempt, StoreError> {
        let outcome = match self.parts.payloads.payload(delivery.user, delivery.subject) {
            Ok(Payload::Body(body)) => self.post(delivery, &body),
            Ok(Payload::Nothing(why)) => {
                return Ok(DeliveryAttempt {
                    status: None,
                    error: Some(why.to_owned()),
                    next: AfterAttempt::Dead,
                });
            }
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(id = %delivery.id, subject = %delivery.subject, reason, "cannot be reported");
                Err(PostError::Failed("what is to be reported cannot be read".to_owned()))
            }
            Err(error) => return Err(error),
        };
        let moment = Moment { now_ms: self.parts.clock.now_ms(), random: self.parts.entropy.random() };
        Ok(retry::attempt(&outcome, delivery.tries, moment))
    }

    fn post(&self, delivery: &Delivery, body: &[u8]) -> Result<Answer, PostError> {
        let timestamp_s = self.parts.clock.now_ms() / 1_000;
        let signature = self.parts.signer.sign(&delivery.id.to_string(), timestamp_s, body);
        let parcel = Parcel { url: &delivery.url, id: delivery.id, timestamp_s, signature, body };
        // A fault in the wire's depths is one delivery's failure, not the end of all.
        catch_unwind(AssertUnwindSafe(|| self.parts.post.post(&parcel)))
            .unwrap_or_else(|_| Err(PostError::Failed("a fault of this server".to_owned())))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery under way; its host is free again when this is dropped.
struct Errand<'a> {
    courier: &'a Courier,
    delivery: Delivery,
    host: String,
}

impl Drop for Errand<'_> {
    fn drop(&mut self) {
        self.courier.lock().busy.remove(&self.host);
    }
}

fn word(next: AfterAttempt) -> &'static str {
    match next {
        AfterAttempt::Delivered => "delivered",
        AfterAttempt::Retry { .. } => "retried",
        AfterAttempt::Dead => "dead",
    }
}

fn report(delivery: &Delivery, attempt: &DeliveryAttempt) {
    let (id, subject, status) = (delivery.id, delivery.subject, attempt.status);
    let reason = attempt.error.as_deref().unwrap_or_default();
    match attempt.next {
        AfterAttempt::Delivered => tracing::debug!(%id, %subject, "webhook delivered"),
        AfterAttempt::Retry { at_ms } => {
            tracing::info!(%id, %subject, status, reason, at_ms, "webhook is tried again");
        }
        AfterAttempt::Dead => tracing::warn!(%id, %subject, status, reason, "webhook is given up"),
    }
}
