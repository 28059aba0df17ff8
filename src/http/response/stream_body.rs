//! A response body that the socket pulls, piece by piece.

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Frame;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body broke off; the client sees a cut connection, never a clean end that is none.
#[derive(Debug, thiserror::Error)]
#[error("the body was cut off: {0}")]
pub(crate) struct BodyError(String);

impl BodyError {
    /// Because of this; for the log.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A body that the socket pulls, piece by piece.
pub(crate) struct StreamBody(Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>);

impl StreamBody {
    /// A body whose pieces come when the socket asks for them.
    pub(crate) fn new(pieces: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self(Box::pin(pieces))
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.as_mut().poll_next(cx).map_ok(Frame::data)
    }
}
