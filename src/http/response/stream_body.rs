//! A response body that the socket pulls, piece by piece, while its caller may read it.

use crate::http::auth::{ACCESS_LOST, RevocationSignal};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use hyper::body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body broke off. The connection is cut, so that the client does not take it for a clean end.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut off: {0}")]
pub(crate) struct BodyError(String);

impl BodyError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Makes the pieces of a body.
pub(crate) trait BodySource: Send + 'static {
    /// The next piece; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, BodyError>> + Send;

    /// The last piece when the caller has lost its access; a future of [`Self::next`] may have been dropped.
    /// An error cuts the body off.
    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        Err(BodyError::new(ACCESS_LOST))
    }
}

/// A body that is rendered piece by piece.
pub(crate) struct StreamBody(Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>);

/// A source, until it has ended, and the signal of its caller.
type BodyState<S> = Option<Box<(S, RevocationSignal)>>;

impl StreamBody {
    /// The body ends when the caller of the signal loses its access.
    pub(crate) fn new(source: impl BodySource, signal: RevocationSignal) -> Self {
        Self(Box::pin(try_unfold(Some(Box::new((source, signal))), next)))
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.as_mut().poll_next(cx).map_ok(Frame::data)
    }
}

async fn next<S: BodySource>(state: BodyState<S>) -> Result<Option<(Bytes, BodyState<S>)>, BodyError> {
    let Some(mut state) = state else { return Ok(None) };
    let (source, signal) = &mut *state;
    tokio::select! {
        biased;
        () = signal.revoked() => {}
        piece = source.next() => return Ok(piece?.map(|piece| (piece, Some(state)))),
    }
    Ok(state.0.end_revoked()?.map(|last| (last, None)))
}
