//! A request's body on its way, and who sends it. Owns the question that is asked once it is here: whether the sender is still
//! let in, since accounts, roles and keys may go while a body takes its time. Refuses to read it (`body` does).

use super::auth::{self, Caller};
use super::door::Door;
use super::error::Error;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body, piece by piece.
pub(crate) struct Arriving {
    body: Incoming,
    sender: Sender,
}

/// Who sends it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender(Caller);

impl Sender {
    /// Refuses whoever would not be let in any more.
    pub(crate) fn confirm(self, door: &Door) -> Result<(), Error> {
        auth::still(door, self.0)
    }
}

impl Arriving {
    pub(crate) fn new(body: Incoming, caller: Caller) -> Self {
        Self { body, sender: Sender(caller) }
    }

    /// To be confirmed when all has arrived.
    pub(crate) fn sender(&self) -> Sender {
        self.sender
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
