//! A write on its way to the disk. Owns how its outcome is waited for; refuses to know what was written.

use super::store::StoreError;
use tokio::sync::oneshot;

/// A write on its way to the disk. It resolves after the fsync that made it durable (P1), or with the reason
/// why it is not. Threads call [`Ticket::wait`]; tasks `.await` it.
#[derive(Debug)]
#[must_use = "an unawaited write may have failed"]
pub struct Ticket<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Ticket<T> {
    /// A ticket and the sender that resolves it.
    pub fn new() -> (oneshot::Sender<Result<T, StoreError>>, Self) {
        let (sender, receiver) = oneshot::channel();
        (sender, Self(receiver))
    }

    /// A ticket that has failed already.
    pub fn refused(error: StoreError) -> Self {
        let (sender, ticket) = Self::new();
        drop(sender.send(Err(error)));
        ticket
    }

    /// The outcome, if there is one already; `None` while the write is under way.
    pub fn poll(&mut self) -> Option<Result<T, StoreError>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(StoreError::Closed)),
        }
    }

    /// Blocks until the write is durable. Not for tasks.
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
