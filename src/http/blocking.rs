//! Runs work on a thread of its own: what waits for another machine or a client, or what nobody's queue may
//! delay. All other blocking work has a client's share of threads: [`super::shared_threads`].

use super::error::ApiError;
use crate::ports::{CancelReason, CancelToken};
use tokio::sync::oneshot;

/// Cancels blocking work when its client leaves.
pub(crate) struct CancelOnDrop(pub(crate) CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel(CancelReason::Cancelled);
    }
}

/// Runs `act` on a new thread. It starts at once and continues when the caller is dropped. The caller bounds
/// how many of them there are. A panic is [`ApiError::Internal`].
pub(crate) fn on_own_thread<T, F>(
    name: &'static str,
    act: F,
) -> impl Future<Output = Result<T, ApiError>> + Send + use<T, F>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    // Log lines there carry the id of the request.
    let (span, (sender, done)) = (tracing::Span::current(), oneshot::channel());
    // The client may have left.
    let work = move || drop(sender.send(span.in_scope(act)));
    let begun = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    async move {
        drop(begun.map_err(|error| {
            tracing::warn!(%error, name, "cannot start a thread");
            ApiError::Internal
        })?);
        // A panic drops the sender.
        done.await.map_err(|_| ApiError::Internal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_of_own_threads_are_returned_and_a_panic_is_an_internal_error() {
        assert_eq!(on_own_thread("work", || vec![7]).await.expect("it is made"), vec![7]);
        let lost = on_own_thread("work", || -> u8 { panic!("it falls over") }).await;
        assert!(matches!(lost, Err(ApiError::Internal)));
    }
}
