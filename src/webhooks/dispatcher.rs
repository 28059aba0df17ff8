//! Dispatches webhook deliveries, one at a time for each host, hosts in turn. Nothing is sent while an
//! attempt is not recorded.

use super::retry::{self, RetryMoment};
use super::sender::{SendError, WebhookRequest, WebhookResponse, WebhookSender};
use super::signature::Signer;
use crate::domain::id::DeliveryId;
use crate::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt};
use crate::ports::{CancelToken, Clock, Entropy, Measurement, Meter, Outbox, Payload, Payloads, StoreError};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Hosts whose turn in a round is remembered. When the set is full a new round begins, which costs a host at
/// most one turn.
const REMEMBERED: usize = 1_024;
/// Minimum wait for a due delivery: its host may be busy.
const WAIT_MIN_MS: u64 = 500;
/// Maximum wait, because clocks jump.
const WAIT_MAX_MS: u64 = 5_000;

/// The ports that a dispatcher needs.
#[derive(Clone)]
pub struct DispatcherPorts {
    /// Due deliveries.
    pub outbox: Arc<dyn Outbox>,
    /// Bodies of deliveries.
    pub payloads: Arc<dyn Payloads>,
    /// HTTP client.
    pub sender: Arc<dyn WebhookSender>,
    /// Signs the bodies.
    pub signer: Signer,
    /// Clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness for the jitter.
    pub entropy: Arc<dyn Entropy>,
    /// Counts attempts.
    pub meter: Arc<dyn Meter>,
}

/// Result of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchOutcome {
    /// No delivery is due for a free host, or another thread records attempts.
    Idle,
    /// This delivery was attempted.
    Attempted(DeliveryId),
}

/// Shared by all webhook threads.
pub struct Dispatcher {
    ports: DispatcherPorts,
    state: Mutex<DispatcherState>,
}

#[derive(Default)]
struct DispatcherState {
    /// Hosts with a delivery in progress.
    busy: BTreeSet<String>,
    /// Hosts that had their turn in this round.
    served: BTreeSet<String>,
    /// Attempts that the store failed to record.
    unrecorded: Vec<(DeliveryId, DeliveryAttempt)>,
    /// A thread is recording them.
    is_recording: bool,
}

impl Dispatcher {
    /// A dispatcher with nothing in progress.
    pub fn new(ports: DispatcherPorts) -> Self {
        Self { ports, state: Mutex::new(DispatcherState::default()) }
    }

    /// Attempts one due delivery, if any. When the store fails, the attempt is recorded before anything else
    /// is sent, so that a full disk does not repeat a webhook every second.
    pub fn tick(&self) -> Result<DispatchOutcome, StoreError> {
        if !self.record_pending()? {
            return Ok(DispatchOutcome::Idle);
        }
        let Some(active) = self.take()? else { return Ok(DispatchOutcome::Idle) };
        let id = active.delivery.id;
        let attempt = self.attempt(&active.delivery)?;
        log_attempt(&active.delivery, &attempt);
        self.ports.meter.record(Measurement::WebhookTried(outcome_label(attempt.next)));
        let settled = self.ports.outbox.settle(id, attempt.clone()).wait();
        match settled {
            // Its row cannot be read any more, so the attempt cannot be recorded, now or later.
            Ok(()) | Err(StoreError::Corrupt(_)) => Ok(DispatchOutcome::Attempted(id)),
            Err(error) => {
                self.lock().unrecorded.push((id, attempt));
                Err(error)
            }
        }
    }

    /// Waits until a tick may find a delivery, or the token is cancelled.
    pub fn wait(&self, stop: &CancelToken) {
        let now_ms = self.ports.clock.now_ms();
        let wait_ms = match self.ports.outbox.next_due_ms() {
            Ok(Some(due_ms)) => due_ms.saturating_sub(now_ms).clamp(WAIT_MIN_MS, WAIT_MAX_MS),
            Ok(None) | Err(_) => WAIT_MAX_MS,
        };
        self.ports.outbox.wait_for_deliveries(stop, Duration::from_millis(wait_ms));
    }

    /// Pauses after a failure of the store.
    pub fn recover(&self, stop: &CancelToken) {
        self.ports.clock.sleep(stop, Duration::from_millis(WAIT_MIN_MS));
    }

    /// Records attempts that the store refused earlier. Runs unlocked, so that other threads continue.
    /// Returns `false` while another thread does this.
    fn record_pending(&self) -> Result<bool, StoreError> {
        let mut pending = {
            let mut state = self.lock();
            if state.is_recording {
                return Ok(false);
            }
            if state.unrecorded.is_empty() {
                return Ok(true);
            }
            state.is_recording = true;
            std::mem::take(&mut state.unrecorded)
        };
        let mut outcome = Ok(true);
        while let Some((id, attempt)) = pending.last().cloned() {
            match self.ports.outbox.settle(id, attempt).wait() {
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

    /// Takes the oldest delivery of a free host. Each host has one turn in a round; the round ends when only
    /// hosts that had theirs are left. Asks for one delivery: others are left to the other nodes.
    fn take(&self) -> Result<Option<ActiveDelivery<'_>>, StoreError> {
        let mut state = self.lock();
        let now_ms = self.ports.clock.now_ms();
        let passed_over = state.busy.union(&state.served).cloned().collect();
        let mut due = self.ports.outbox.due(now_ms, 1, &passed_over)?;
        if due.is_empty() && !state.served.is_empty() {
            state.served.clear();
            due = self.ports.outbox.due(now_ms, 1, &state.busy)?;
        }
        let Some(delivery) = due.pop() else { return Ok(None) };
        let host = delivery.url.host_and_port();
        state.busy.insert(host.clone());
        if state.served.len() >= REMEMBERED {
            state.served.clear();
        }
        state.served.insert(host.clone());
        Ok(Some(ActiveDelivery { dispatcher: self, delivery, host }))
    }

    fn attempt(&self, delivery: &Delivery) -> Result<DeliveryAttempt, StoreError> {
        let outcome = match self.ports.payloads.payload(delivery) {
            Ok(Payload::Body(body)) => self.send(delivery, &body),
            Ok(Payload::Nothing(reason)) => {
                return Ok(DeliveryAttempt {
                    status: None,
                    error: Some(reason.to_owned()),
                    next: AfterAttempt::Dead,
                });
            }
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(id = %delivery.id, subject = %delivery.subject, reason, "webhook payload is corrupt");
                Err(SendError::Failed("what is to be reported cannot be read".to_owned()))
            }
            Err(error) => return Err(error),
        };
        let moment = RetryMoment { now_ms: self.ports.clock.now_ms(), random: self.ports.entropy.random() };
        Ok(retry::attempt(&outcome, delivery.tries, moment))
    }

    fn send(&self, delivery: &Delivery, body: &[u8]) -> Result<WebhookResponse, SendError> {
        let timestamp_s = self.ports.clock.now_ms() / 1_000;
        let signature = self.ports.signer.sign(&delivery.id.to_string(), timestamp_s, body);
        let request = WebhookRequest { url: &delivery.url, id: delivery.id, timestamp_s, signature, body };
        // A panic in the HTTP client fails one delivery and must not end the thread.
        catch_unwind(AssertUnwindSafe(|| self.ports.sender.send(&request)))
            .unwrap_or_else(|_| Err(SendError::Failed("a fault of this server".to_owned())))
    }

    fn lock(&self) -> MutexGuard<'_, DispatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A delivery in progress. Dropping it frees its host.
struct ActiveDelivery<'a> {
    dispatcher: &'a Dispatcher,
    delivery: Delivery,
    host: String,
}

impl Drop for ActiveDelivery<'_> {
    fn drop(&mut self) {
        self.dispatcher.lock().busy.remove(&self.host);
    }
}

fn outcome_label(next: AfterAttempt) -> &'static str {
    match next {
        AfterAttempt::Delivered => "delivered",
        AfterAttempt::Retry { .. } => "retried",
        AfterAttempt::Dead => "dead",
    }
}

fn log_attempt(delivery: &Delivery, attempt: &DeliveryAttempt) {
    let (id, subject, status) = (delivery.id, delivery.subject, attempt.status);
    let reason = attempt.error.as_deref().unwrap_or_default();
    match attempt.next {
        AfterAttempt::Delivered => tracing::debug!(%id, %subject, "webhook delivered"),
        AfterAttempt::Retry { at_ms } => {
            tracing::info!(%id, %subject, status, reason, at_ms, "webhook attempt failed; retrying");
        }
        AfterAttempt::Dead => tracing::warn!(%id, %subject, status, reason, "webhook given up"),
    }
}
