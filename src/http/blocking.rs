//! Work that may block, on a thread that may. Owns the way there and back; refuses to know what the work is.

use super::error::ApiError;
use std::any::Any;
use tokio::task::JoinHandle;

type BlockingResult = Box<dyn Any + Send>;

/// What `act` makes, on a thread that may block. It starts at once, and goes on when nobody waits any more; if it panics,
/// that is [`ApiError::Internal`].
///
/// To tokio, all of these are tasks of one type: a type for each would cost 2 kB of code.
pub(crate) fn blocking<T, F>(act: F) -> impl Future<Output = Result<T, ApiError>> + Send
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // What is logged there is about the same request.
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
    async fn what_is_made_comes_back_and_a_panic_is_an_internal_error() {
        assert_eq!(blocking(|| vec![7]).await.expect("it is made"), vec![7]);
        let lost = blocking(|| -> u8 { panic!("it falls over") }).await;
        assert!(matches!(lost, Err(ApiError::Internal)));
    }
}
