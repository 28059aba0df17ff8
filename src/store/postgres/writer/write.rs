//! A queued write: its change, its weight, and the ticket that it resolves.

use crate::domain::id::JobId;
use crate::ports::{StoreError, Ticket, Urgency};
use crate::store::port_error::PortError;
use crate::store::postgres::writer::act::Act;
use crate::store::rows::weight::BASE_WEIGHT;
use std::pin::Pin;
use tokio::sync::oneshot;

/// Properties of a write that the writer reads before it applies the write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    /// Approximate size, bytes.
    pub(crate) weight: usize,
    /// Whether it may wait for other writes.
    pub(crate) urgency: Urgency,
    /// Whether it waits for a database that is away; others fail soon.
    pub(crate) is_patient: bool,
    /// What it has to do with other writes of its group.
    pub(crate) scope: WriteScope,
}

/// What a write has to do with other writes of its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteScope {
    /// It reads what others have written.
    Any,
    /// It reads nothing that others of its group may have changed.
    Alone,
    /// The same, and it ends the lease of this job.
    EndsLease(JobId),
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { weight: BASE_WEIGHT, urgency: Urgency::Now, is_patient: false, scope: WriteScope::Any }
    }
}

impl WriteOptions {
    /// A write with so many bytes of text.
    pub(crate) fn weighing(bytes: usize) -> Self {
        Self { weight: bytes.saturating_add(BASE_WEIGHT), ..Self::default() }
    }

    /// The same with another scope.
    pub(crate) fn scoped(self, scope: WriteScope) -> Self {
        Self { scope, ..self }
    }

    /// The same for a worker.
    pub(crate) fn patient(self) -> Self {
        Self { is_patient: true, ..self }
    }
}

/// The future of a change.
pub(crate) type Applying<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + 'a>>;

/// A write and the ticket of its caller.
pub(crate) trait QueuedWrite: Send {
    fn options(&self) -> WriteOptions;
    /// Notes that the database is away at this time. Returns since when it has been for this write.
    fn away_since(&mut self, monotonic_ms: u64) -> u64;
    /// Writes into the open transaction; it may run again in a later one. Errors of the store abandon the
    /// transaction and are returned. Any other error is for the caller and occurs before the first write.
    fn apply<'a>(&'a mut self, act: &'a mut Act<'_>) -> Applying<'a>;
    /// Resolves the ticket with the outcome of the commit.
    fn settle(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct WaitingWrite<F, T, E> {
    options: WriteOptions,
    away_since_ms: Option<u64>,
    change: F,
    result: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

/// Packs a write for the channel.
pub(crate) fn queued_write<T, E>(
    options: WriteOptions,
    change: impl AsyncFn(&mut Act<'_>) -> Result<T, E> + Send + 'static,
) -> (Box<dyn QueuedWrite>, Ticket<T, E>)
where
    T: Send + 'static,
    E: PortError,
{
    let (caller, ticket) = Ticket::new();
    (Box::new(WaitingWrite { options, away_since_ms: None, change, result: None, caller }), ticket)
}

impl<F, T, E> QueuedWrite for WaitingWrite<F, T, E>
where
    F: AsyncFn(&mut Act<'_>) -> Result<T, E> + Send,
    T: Send,
    E: PortError,
{
    fn options(&self) -> WriteOptions {
        self.options
    }

    fn away_since(&mut self, monotonic_ms: u64) -> u64 {
        *self.away_since_ms.get_or_insert(monotonic_ms)
    }

    fn apply<'a>(&'a mut self, act: &'a mut Act<'_>) -> Applying<'a> {
        Box::pin(async move {
            let result = (self.change)(act).await;
            if let Some(error) = result.as_ref().err().and_then(PortError::store_error) {
                return Err(error.clone());
            }
            self.result = Some(result);
            Ok(())
        })
    }

    fn settle(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { result, caller, .. } = *self;
        let result = match outcome {
            Ok(()) => result.unwrap_or_else(|| Err(StoreError::Closed.into())),
            Err(error) => Err(error.into()),
        };
        // The caller may no longer wait for the result.
        drop(caller.send(result));
    }
}
