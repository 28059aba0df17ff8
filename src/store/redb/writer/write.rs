//! A queued write for the writer thread: its change, its weight, and the ticket that it resolves.

use crate::domain::id::JobId;
use crate::ports::{StoreError, Ticket, Urgency};
use crate::store::port_error::PortError;
use crate::store::redb::writer::transaction::Transaction;
use crate::store::rows::weight::BASE_WEIGHT;
use tokio::sync::oneshot;

/// Properties of a write that the writer reads before it applies the write.
#[derive(Debug)]
pub(crate) struct WriteOptions {
    /// Jobs that lose their leases when the outcome of the commit is unknown.
    pub(crate) jobs: Vec<JobId>,
    /// Approximate size, bytes.
    pub(crate) weight: usize,
    /// Whether it may wait for other writes.
    pub(crate) urgency: Urgency,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { jobs: Vec::new(), weight: BASE_WEIGHT, urgency: Urgency::Now }
    }
}

impl WriteOptions {
    /// A write for one job.
    pub(crate) fn of(job: JobId) -> Self {
        Self { jobs: vec![job], ..Self::default() }
    }

    /// The same with so many bytes of text.
    pub(crate) fn weighing(self, bytes: usize) -> Self {
        Self { weight: bytes.saturating_add(BASE_WEIGHT), ..self }
    }
}

/// A write and the ticket of its caller.
pub(crate) trait QueuedWrite: Send {
    fn options(&self) -> &WriteOptions;
    /// Writes into the open transaction; it may run again in a later one. Errors that break the store, and
    /// `Corrupt`, abandon the transaction and are returned. Any other error is for the caller and occurs
    /// before the first write.
    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError>;
    /// Resolves the ticket with the outcome of the commit.
    fn settle(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct WaitingWrite<F, T, E> {
    options: WriteOptions,
    change: F,
    result: Option<Result<T, E>>,
    caller: oneshot::Sender<Result<T, E>>,
}

/// Packs a write for the channel.
pub(crate) fn queued_write<T, E>(
    options: WriteOptions,
    change: impl Fn(&mut Transaction<'_>) -> Result<T, E> + Send + 'static,
) -> (Box<dyn QueuedWrite>, Ticket<T, E>)
where
    T: Send + 'static,
    E: PortError,
{
    let (caller, ticket) = Ticket::new();
    (Box::new(WaitingWrite { options, change, result: None, caller }), ticket)
}

impl<F, T, E> QueuedWrite for WaitingWrite<F, T, E>
where
    F: Fn(&mut Transaction<'_>) -> Result<T, E> + Send,
    T: Send,
    E: PortError,
{
    fn options(&self) -> &WriteOptions {
        &self.options
    }

    fn apply(&mut self, transaction: &mut Transaction<'_>) -> Result<(), StoreError> {
        let result = (self.change)(transaction);
        let error = result.as_ref().err().and_then(PortError::store_error);
        if let Some(error) = error
            && (error.breaks_store() || matches!(error, StoreError::Corrupt(_)))
        {
            return Err(error.clone());
        }
        self.result = Some(result);
        Ok(())
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

impl Transaction<'_> {
    /// Makes a commit that changes nothing else.
    pub(crate) fn beat(&mut self) {
        self.counters.beat = self.counters.beat.wrapping_add(1);
        self.counters.seen_ms = self.now_ms;
        self.counters.distrust_ms = self.distrust_ms;
        self.mark_dirty();
    }
}
