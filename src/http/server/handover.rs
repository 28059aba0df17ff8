//! Takes the body of a stream from hyper at the first time that it has nothing to send. The connection sends
//! the rest itself: an idle stream then holds none of hyper's buffers.

use crate::http::middleware::access_log::MeteredBody;
use crate::http::response::stream_body::BodyError;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::CONNECTION;
use hyper::{HeaderMap, Version};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

/// How the end of a body is marked, as hyper has announced it in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamFraming {
    Chunked {
        /// Another request may follow on the connection.
        keep_alive: bool,
    },
    /// The connection ends with the body.
    UntilClose,
}

impl StreamFraming {
    /// The framing of a body of unknown length.
    pub(super) fn of(version: Version, closes: bool) -> Self {
        if version < Version::HTTP_11 { Self::UntilClose } else { Self::Chunked { keep_alive: !closes } }
    }
}

/// Whether `Connection` says `close`.
pub(super) fn closes(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// The rest of a stream.
pub(super) struct HandedStream {
    pub(super) body: MeteredBody,
    pub(super) framing: StreamFraming,
}

/// From the bodies of a connection to the connection.
#[derive(Clone, Default)]
pub(super) struct StreamHandover(Arc<Mutex<Option<HandedStream>>>);

impl StreamHandover {
    pub(super) fn take(&self) -> Option<HandedStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, stream: HandedStream) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }
}

/// A response body that hyper sends, until it is a stream that waits.
pub(super) struct OfferedBody {
    /// `None`: it was handed over, and hyper waits.
    body: Option<MeteredBody>,
    framing: StreamFraming,
    handover: StreamHandover,
}

impl OfferedBody {
    pub(super) fn new(body: MeteredBody, framing: StreamFraming, handover: StreamHandover) -> Self {
        Self { body: Some(body), framing, handover }
    }
}

impl Body for OfferedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Pending };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        if polled.is_pending()
            && body.is_stream()
            && let Some(body) = this.body.take()
        {
            this.handover.put(HandedStream { body, framing: this.framing });
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_connection_close_closes() {
        let read =
            |value: &str| closes(&HeaderMap::from_iter([(CONNECTION, value.parse().expect("a value"))]));
        assert_eq!(["close", "te, Close", "keep-alive", "closed"].map(read), [true, true, false, false]);
    }
}
