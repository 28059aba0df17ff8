//! The body of a request, which its connection keeps until the next request.
//!
//! A request that is refused early leaves its body unread. The next request stands behind that body, so the
//! connection reads a small one to its end before it answers; before a larger one, it says that it closes.
//! Without either, clients that send the next request at once would get a reset instead of an answer.

use super::client_socket::SocketState;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Bodies up to this size are read to their end.
const SMALL_BYTES: u64 = 64 * 1024;
/// How long that may take: such a body usually follows its head at once.
const SMALL_TIME: Duration = Duration::from_secs(1);

/// A request's body. Its copies read the same body.
#[derive(Debug, Clone)]
pub(crate) struct ClientBody {
    body: Arc<Mutex<Incoming>>,
    socket: SocketState,
}

impl ClientBody {
    pub(super) fn new(body: Incoming, socket: SocketState) -> Self {
        Self { body: Arc::new(Mutex::new(body)), socket }
    }

    /// Reads what is left of a small body. Returns whether the end was reached.
    pub(super) async fn read_rest(mut self) -> bool {
        if self.size_hint().upper().is_none_or(|bytes| bytes > SMALL_BYTES) {
            return false;
        }
        let rest = async {
            while let Some(frame) = self.frame().await {
                if frame.is_err() {
                    return false;
                }
            }
            true
        };
        tokio::time::timeout(SMALL_TIME, rest).await.unwrap_or(false)
    }

    fn lock(&self) -> MutexGuard<'_, Incoming> {
        self.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut *self.lock()).poll_frame(cx);
        self.socket.activity().set_stalled(polled.is_pending());
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}
