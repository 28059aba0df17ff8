//! A pending write and how to wait for it.

use super::store_error::StoreError;
use tokio::sync::oneshot;

/// A pending write. Resolves after the fsync that made it durable (P1; the log of a job in memory needs
/// none), or with an error of its port. Threads call [`Ticket::wait`]; tasks `.await` it.
#[derive(Debug)]
#[must_use = "an unawaited write may have failed"]
pub struct Ticket<T, E = StoreError>(oneshot::Receiver<Result<T, E>>);

impl<T, E: From<StoreError>> Ticket<T, E> {
    /// A ticket and the sender that resolves it.
    pub fn new() -> (oneshot::Sender<Result<T, E>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A ticket that is resolved already.
    pub fn resolved(outcome: Result<T, E>) -> Self {
        let (sender, ticket) = Self::new();
        drop(sender.send(outcome));
        ticket
    }

    /// The result, or `None` while the write is pending.
    pub fn poll(&mut self) -> Option<Result<T, E>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(StoreError::Closed.into())),
        }
    }

    /// Blocks until the write is durable. Not for async tasks.
    pub fn wait(self) -> Result<T, E> {
        self.0.blocking_recv().unwrap_or_else(|_| Err(StoreError::Closed.into()))
    }
}

impl<T, E> IntoFuture for Ticket<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    type Output = Result<T, E>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.await.unwrap_or_else(|_| Err(StoreError::Closed.into())) })
    }
}
