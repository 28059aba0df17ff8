//! A socket whose input counts against `limits.bodies_bytes` as it arrives.

use crate::http::error::ApiError;
use crate::http::request::body::BodyMemory;
use crate::http::response::upgrade::UpgradedSocket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

pub(super) struct CountedInput {
    io: UpgradedSocket,
    /// The memory of the message that arrives.
    memory: BodyMemory,
    /// When that message began.
    began_at: Option<Instant>,
    /// When the last byte arrived.
    heard_at: Instant,
    /// Why no more is read.
    refusal: Option<ApiError>,
}

impl CountedInput {
    pub(super) fn new(io: UpgradedSocket, memory: BodyMemory) -> Self {
        Self { io, memory, began_at: None, heard_at: Instant::now(), refusal: None }
    }

    pub(super) fn into_inner(self) -> UpgradedSocket {
        self.io
    }

    /// A message has arrived: what it uses.
    pub(super) fn take_memory(&mut self) -> BodyMemory {
        self.began_at = None;
        self.memory.split()
    }

    pub(super) fn take_refusal(&mut self) -> Option<ApiError> {
        self.refusal.take()
    }

    pub(super) fn began_at(&self) -> Option<Instant> {
        self.began_at
    }

    pub(super) fn heard_at(&self) -> Instant {
        self.heard_at
    }
}

impl AsyncRead for CountedInput {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buffer))?;
        let bytes = buffer.filled().len().saturating_sub(before);
        if bytes > 0 {
            let now = Instant::now();
            (this.began_at, this.heard_at) = (this.began_at.or(Some(now)), now);
            if let Err(error) = this.memory.grow(bytes) {
                this.refusal = Some(error);
                return Poll::Ready(Err(io::ErrorKind::OutOfMemory.into()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountedInput {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, data)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
