//! A pending write and how to wait for it.

use super::store::StoreError;
use tokio::sync::oneshot;

/// A pending write. Resolves after the fsync that made it durable (P1), or with an error. Threads call
/// [`Ticket::wait`]; tasks `.await` it.
#[derive(Debug)]
#[must_use = "an unawaited write may have failed"]
pub struct Ticket<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Ticket<T> {
    /// A ticket and the sender that resolves it.
    pub fn new() -> (oneshot::Sender<Result<T, StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A ticket that has already failed.
    pub fn refused(error: StoreError) -> Self {
        let (sender, ticket) = Self::new();
        drop(sender.send(Err(error)));
        ticket
    }

    /// The result, or `None` while the write is pending.
    pub fn poll(&mut self) -> Option<Result<T, StoreError>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(StoreError::Closed)),
        }
    }

    /// Blocks until the write is durable. Not for async tasks.
    pub fn wait(self) -> Result<T, StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl<T> IntoFuture for Ticket<T>
where
    T: Send + 'static,
{
    type Output = Result<T, StoreError>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.0.await.unwrap_or(Err(StoreError::Closed)) })
    }
}
