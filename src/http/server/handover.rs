//! Takes the body of a stream from hyper at the first time that it has nothing to send. The connection sends
//! the rest itself: an idle stream then holds none of hyper's buffers. A connection that changes its protocol
//! is taken from hyper, too, once the head of the 101 was sent.

use crate::http::middleware::access_log::MeteredBody;
use crate::http::response::stream_body::BodyError;
use bytes::Bytes;
use hyper::Version;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// The rest of a stream.
pub(super) struct HandedStream {
    pub(super) body: MeteredBody,
    pub(super) framing: StreamFraming,
}

/// From the bodies of a connection to the connection.
#[derive(Clone, Default)]
pub(super) struct StreamHandover(Arc<Mutex<HandedBodies>>);

#[derive(Default)]
struct HandedBodies {
    stream: Option<HandedStream>,
    /// The body of a 101.
    upgrade: Option<MeteredBody>,
}

impl StreamHandover {
    pub(super) fn take(&self) -> Option<HandedStream> {
        self.lock().stream.take()
    }

    /// What follows when hyper has sent the head of a 101.
    pub(super) fn take_upgrade(&self) -> Option<MeteredBody> {
        self.lock().upgrade.take()
    }

    fn put(&self, stream: HandedStream) {
        self.lock().stream = Some(stream);
    }

    fn lock(&self) -> MutexGuard<'_, HandedBodies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A response body that hyper sends, until it is a stream that waits.
pub(super) struct OfferedBody {
    /// `None`: it was handed over, and hyper waits.
    body: Option<MeteredBody>,
    /// It was handed over, and hyper sends nothing behind the head.
    is_upgrade: bool,
    framing: StreamFraming,
    handover: StreamHandover,
}

impl OfferedBody {
    pub(super) fn new(body: MeteredBody, framing: StreamFraming, handover: StreamHandover) -> Self {
        let is_upgrade = body.is_upgrade();
        let mut body = Some(body);
        if is_upgrade {
            handover.lock().upgrade = body.take();
        }
        Self { body, is_upgrade, framing, handover }
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
        let Some(body) = &mut this.body else {
            return if this.is_upgrade { Poll::Ready(None) } else { Poll::Pending };
        };
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
        self.is_upgrade || self.body.as_ref().is_some_and(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}
