//! Dispatches webhook deliveries: begins those that are due, users in turn, and records their ends. Nothing
//! begins while an attempt is not recorded.

use super::error::SendError;
use super::retry::{self, RetryMoment};
use super::sender::{AttemptEnd, WebhookRequest, WebhookResponse, WebhookSender};
use super::signature::Signer;
use crate::domain::delivery_turns::DeliveryTurns;
use crate::domain::id::UserId;
use crate::domain::webhook::{AfterAttempt, Delivery, DeliveryAttempt};
use crate::ports::{CancelToken, Clock, Entropy, Measurement, Meter, Outbox, Payload, Payloads, StoreError};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Deliveries that a tick begins at most.
const BEGUN_AT_ONCE: usize = 32;
/// Attempts that are recorded together.
const RECORDED_AT_ONCE: usize = 64;
/// Minimum wait for a due delivery: its receiver may be busy.
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
    /// No delivery may begin.
    Idle,
    /// This many have begun.
    Begun(usize),
}

/// Used by one thread; attempts end on any.
#[derive(Clone)]
pub struct Dispatcher(Arc<DispatcherShared>);

struct DispatcherShared {
    ports: DispatcherPorts,
    state: Mutex<DispatcherState>,
}

#[derive(Default)]
struct DispatcherState {
    turns: DeliveryTurns,
    /// Attempts that are not recorded yet. Their turns are still taken.
    ended: Vec<EndedAttempt>,
}

struct EndedAttempt {
    delivery: Delivery,
    attempt: DeliveryAttempt,
}

impl Dispatcher {
    /// A dispatcher with nothing in progress.
    pub fn new(ports: DispatcherPorts) -> Self {
        Self(Arc::new(DispatcherShared { ports, state: Mutex::default() }))
    }

    /// Records the attempts that have ended and begins deliveries that are due. When the store fails, nothing
    /// begins, so that a full disk does not repeat a webhook every second.
    pub fn tick(&self) -> Result<DispatchOutcome, StoreError> {
        self.record_ended()?;
        let (turns, outbox) = (self.0.lock().turns.clone(), &self.0.ports.outbox);
        let due = outbox.due(self.0.ports.clock.now_ms(), BEGUN_AT_ONCE, &turns)?;
        let mut begun = 0;
        for delivery in due {
            // The payloads of those before may have filled the memory of their user.
            let receiver = delivery.url.host_and_port();
            if self.0.lock().turns.admits(delivery.user, &receiver) {
                self.begin(delivery)?;
                begun += 1;
            }
        }
        Ok(if begun == 0 { DispatchOutcome::Idle } else { DispatchOutcome::Begun(begun) })
    }

    /// Counts what a tick might act on; read before a tick, it lets [`Self::wait`] miss nothing.
    pub fn changes(&self) -> u64 {
        self.0.ports.outbox.delivery_changes()
    }

    /// Waits until a tick may have something to do, or the token is cancelled.
    pub fn wait(&self, seen: u64, stop: &CancelToken) {
        let ports = &self.0.ports;
        let wait_ms = match ports.outbox.next_due_ms() {
            Ok(Some(due_ms)) => due_ms.saturating_sub(ports.clock.now_ms()).clamp(WAIT_MIN_MS, WAIT_MAX_MS),
            Ok(None) | Err(_) => WAIT_MAX_MS,
        };
        ports.outbox.wait_for_deliveries(seen, stop, Duration::from_millis(wait_ms));
    }

    /// Pauses after a failure of the store.
    pub fn recover(&self, stop: &CancelToken) {
        self.0.ports.clock.sleep(stop, Duration::from_millis(WAIT_MIN_MS));
    }

    /// Number of deliveries in progress, those that are not recorded included.
    pub fn in_progress(&self) -> usize {
        self.0.lock().turns.total()
    }

    /// Records the attempts that have ended. Those that the store refuses are kept.
    pub fn record_ended(&self) -> Result<(), StoreError> {
        loop {
            let ended: Vec<EndedAttempt> = {
                let mut state = self.0.lock();
                let count = state.ended.len().min(RECORDED_AT_ONCE);
                state.ended.drain(..count).collect()
            };
            if ended.is_empty() {
                return Ok(());
            }
            let settle =
                |ended: &EndedAttempt| self.0.ports.outbox.settle(ended.delivery.id, ended.attempt.clone());
            let tickets: Vec<_> = ended.iter().map(settle).collect();
            let mut outcome = Ok(());
            for (ended, ticket) in ended.into_iter().zip(tickets) {
                match ticket.wait() {
                    // A row that cannot be read any more can never be recorded.
                    Ok(()) | Err(StoreError::Corrupt(_)) => self.0.give_back_turn(&ended.delivery),
                    Err(error) => {
                        self.0.lock().ended.push(ended);
                        outcome = Err(error);
                    }
                }
            }
            outcome?;
        }
    }

    /// Loads the payload and begins to send it.
    fn begin(&self, delivery: Delivery) -> Result<(), StoreError> {
        self.0.lock().turns.take(delivery.user, &delivery.url.host_and_port());
        match self.0.ports.payloads.payload(&delivery) {
            Ok(Payload::Body(body)) => self.send(delivery, body),
            Ok(Payload::Nothing(reason)) => {
                let error = Some(reason.to_owned());
                self.0.end(delivery, DeliveryAttempt { status: None, error, next: AfterAttempt::Dead });
            }
            Err(StoreError::Corrupt(reason)) => {
                tracing::error!(id = %delivery.id, subject = %delivery.subject, reason, "webhook payload is corrupt");
                let error = SendError::Failed("what is to be reported cannot be read".to_owned());
                self.0.report(delivery, &Err(error));
            }
            Err(error) => {
                self.0.give_back_turn(&delivery);
                return Err(error);
            }
        }
        Ok(())
    }

    fn send(&self, delivery: Delivery, body: Vec<u8>) {
        let ports = &self.0.ports;
        let timestamp_s = ports.clock.now_ms() / 1_000;
        let request = WebhookRequest {
            url: delivery.url.clone(),
            user: delivery.user,
            id: delivery.id,
            timestamp_s,
            signature: ports.signer.sign(&delivery.id.to_string(), timestamp_s, &body),
            body: HeldPayload::hold(&self.0, delivery.user, body),
        };
        let shared = Arc::clone(&self.0);
        ports.sender.start(request, AttemptEnd::new(move |outcome| shared.report(delivery, &outcome)));
    }
}

impl DispatcherShared {
    /// An attempt has ended with this outcome.
    fn report(&self, delivery: Delivery, outcome: &Result<WebhookResponse, SendError>) {
        let moment = RetryMoment { now_ms: self.ports.clock.now_ms(), random: self.ports.entropy.random() };
        let attempt = retry::attempt(outcome, delivery.tries, moment);
        self.end(delivery, attempt);
    }

    fn end(&self, delivery: Delivery, attempt: DeliveryAttempt) {
        log_attempt(&delivery, &attempt);
        self.ports.meter.record(Measurement::WebhookTried(outcome_label(attempt.next)));
        self.lock().ended.push(EndedAttempt { delivery, attempt });
        self.ports.outbox.wake_dispatcher();
    }

    fn give_back_turn(&self, delivery: &Delivery) {
        self.lock().turns.give_back(delivery.user, &delivery.url.host_and_port());
    }

    fn lock(&self) -> MutexGuard<'_, DispatcherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A payload in memory. It counts as its user's until it is sent.
struct HeldPayload {
    body: Vec<u8>,
    user: UserId,
    shared: Arc<DispatcherShared>,
}

impl HeldPayload {
    fn hold(shared: &Arc<DispatcherShared>, user: UserId, body: Vec<u8>) -> Bytes {
        shared.lock().turns.take_bytes(user, body.len());
        Bytes::from_owner(Self { body, user, shared: Arc::clone(shared) })
    }
}

impl AsRef<[u8]> for HeldPayload {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for HeldPayload {
    fn drop(&mut self) {
        self.shared.lock().turns.give_back_bytes(self.user, self.body.len());
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
