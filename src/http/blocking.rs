//! Runs blocking work on a thread that may block.

use super::error::ApiError;
use crate::ports::{CancelReason, CancelToken};
use std::any::Any;
use tokio::task::JoinHandle;

/// Cancels blocking work when its client leaves.
pub(crate) struct CancelOnDrop(pub(crate) CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel(CancelReason::Cancelled);
    }
}

type BlockingResult = Box<dyn Any + Send>;

/// Runs `act` on a thread that may block. It starts at once and continues when the caller is dropped. A
/// panic is [`ApiError::Internal`].
pub(crate) fn blocking<T, F>(act: F) -> impl Future<Output = Result<T, ApiError>> + Send
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // Log lines there carry the id of the request.
    let span = tracing::Span::current();
    let act: Box<dyn FnOnce() -> BlockingResult + Send> = Box::new(move || Box::new(span.in_scope(act)));
    made(tokio::task::spawn_blocking(act))
}

async fn made<T: 'static>(making: JoinHandle<BlockingResult>) -> Result<T, ApiError> {
    let made = making.await.map_err(|_| ApiError::Internal)?;
    Ok(*made.downcast().map_err(|_| ApiError::Internal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn blocking_results_are_returned_and_a_panic_is_an_internal_error() {
        assert_eq!(blocking(|| vec![7]).await.expect("it is made"), vec![7]);
        let lost = blocking(|| -> u8 { panic!("it falls over") }).await;
        assert!(matches!(lost, Err(ApiError::Internal)));
    }
}
