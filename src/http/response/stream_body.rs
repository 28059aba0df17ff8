//! A response body that the socket pulls, piece by piece.

use bytes::Bytes;
use futures_util::Stream;
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

/// A body that is rendered piece by piece.
pub(crate) struct StreamBody(Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>);

impl StreamBody {
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
