//! The socket of a client under hyper. A write that makes no progress fails; reads have limits of their own
//! elsewhere.
//!
//! A client that closes its sending side after the request, as `nc -N` does, is answered. The end of its
//! input looks as if the client had left; only the time differs: `shutdown` follows the request at once, and
//! a reader leaves later. hyper (with `half_close`) reads nothing while it answers, so this socket looks for
//! the end of the input and fails when it comes late.

use super::activity::ConnectionActivity;
use crate::http::shares::ShareOwner;
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// What the socket of a client, its requests and hyper's connection tell each other.
#[derive(Debug, Clone, Default)]
pub(crate) struct SocketState(Arc<SharedState>);

#[derive(Debug, Default)]
struct SharedState {
    /// The end of the client's input ends its request.
    ends_with_input: AtomicBool,
    /// The body of the newest request has been read to its end.
    is_body_read: AtomicBool,
    /// The socket has taken all that hyper had to send.
    is_flushed: AtomicBool,
    socket: AtomicWaker,
    activity: ConnectionActivity,
}

/// A request of a connection until its response was sent.
pub(crate) struct ActiveRequest(pub(super) SocketState);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.activity().end_request();
    }
}

impl SocketState {
    /// A new request begins: its client may close its sending side. `None`: the connection is being closed.
    pub(super) fn begin_request(&self, has_body: bool) -> Option<ActiveRequest> {
        let active = self.activity().begin_request().then(|| ActiveRequest(self.clone()))?;
        self.0.ends_with_input.store(false, Ordering::SeqCst);
        self.0.is_body_read.store(!has_body, Ordering::SeqCst);
        Some(active)
    }

    pub(super) fn activity(&self) -> &ConnectionActivity {
        &self.0.activity
    }

    /// Whose connection it is from now on.
    pub(crate) fn set_holder(&self, holder: ShareOwner) {
        self.activity().set_holder(holder);
    }

    /// A client that closes its sending side has left.
    pub(crate) fn end_with_input(&self) {
        self.0.ends_with_input.store(true, Ordering::SeqCst);
        self.0.socket.wake();
    }

    /// The end of the request's body was reached.
    pub(crate) fn body_read(&self) {
        self.0.is_body_read.store(true, Ordering::SeqCst);
    }

    /// Whether the next bytes of the input are a request, and not the rest of the last one.
    pub(super) fn is_body_read(&self) -> bool {
        self.0.is_body_read.load(Ordering::SeqCst)
    }

    pub(super) fn is_flushed(&self) -> bool {
        self.0.is_flushed.load(Ordering::SeqCst)
    }

    fn set_flushed(&self, is_flushed: bool) {
        self.0.is_flushed.store(is_flushed, Ordering::SeqCst);
    }

    fn ends_with_input(&self, cx: &Context<'_>) -> bool {
        self.0.socket.register(cx.waker());
        self.0.ends_with_input.load(Ordering::SeqCst)
    }
}

/// An end of the input this soon after the last byte belongs to the request.
const AT_ONCE: Duration = Duration::from_millis(150);

/// The socket of a client.
#[derive(Debug)]
pub(crate) struct ClientSocket<IO> {
    io: IO,
    /// A write without progress fails after this time.
    limit: Duration,
    /// Exists only while a write waits, so that idle connections cost nothing.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Input behind the bytes that hyper has read: one byte, or what an earlier hyper connection left.
    unread: Bytes,
    last_read: Instant,
    /// The input has ended, right after a request.
    is_half_closed: bool,
    state: SocketState,
}

impl<IO> ClientSocket<IO> {
    pub(crate) fn new(io: IO, limit: Duration, state: SocketState) -> Self {
        let last_read = Instant::now();
        Self { io, limit, alarm: None, unread: Bytes::new(), last_read, is_half_closed: false, state }
    }

    /// Puts input back that hyper has read, but not used.
    pub(super) fn put_back(&mut self, input: &[u8]) {
        // Copied: the buffer of hyper is larger.
        self.unread = if self.unread.is_empty() {
            Bytes::copy_from_slice(input)
        } else {
            [input, &self.unread].concat().into()
        };
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.state.activity().set_stalled(polled.is_pending());
        if polled.is_ready() {
            self.alarm = None;
            return polled;
        }
        let limit = self.limit;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<IO: AsyncRead + Unpin> ClientSocket<IO> {
    /// Fails when the client has left. Reads one byte ahead for that.
    pub(super) fn check_input(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.unread.is_empty() && !self.is_half_closed {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            if Pin::new(&mut self.io).poll_read(cx, &mut buffer)?.is_pending() {
                return Ok(());
            }
            self.is_half_closed = buffer.filled().is_empty();
            self.unread = Bytes::copy_from_slice(buffer.filled());
            if self.is_half_closed && self.last_read.elapsed() >= AT_ONCE {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if self.is_half_closed && self.state.ends_with_input(cx) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for ClientSocket<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let count = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread.split_to(count));
        // Also behind a byte that was read ahead: a body must not be read byte by byte.
        if buffer.remaining() > 0 && self.unread.is_empty() {
            let polled = Pin::new(&mut self.io).poll_read(cx, buffer)?;
            if polled.is_pending() && count == 0 {
                return Poll::Pending;
            }
        }
        if buffer.filled().len() > before {
            self.last_read = Instant::now();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientSocket<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        self.state.set_flushed(false);
        let polled = Pin::new(&mut self.io).poll_write(cx, data);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.state.set_flushed(false);
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_input(cx)?;
        let polled = Pin::new(&mut self.io).poll_flush(cx);
        self.state.set_flushed(polled.is_ready());
        self.watch(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.io).poll_shutdown(cx);
        self.watch(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_write_without_progress_times_out_and_progress_resets_the_timer() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = ClientSocket::new(near, Duration::from_millis(300), SocketState::default());
        let reader = tokio::spawn(async move {
            let mut seen = [0_u8; 8];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                far.read_exact(&mut seen).await.expect("reads");
            }
            far // kept open, never read again
        });
        near.write_all(&[0; 64]).await.expect("slow, but never 300 ms without progress");
        let far = reader.await.expect("runs");
        let stalled = near.write_all(&[0; 64]).await.expect_err("nobody reads");
        assert_eq!(stalled.kind(), io::ErrorKind::TimedOut);
        drop(far);
    }

    #[tokio::test]
    async fn a_byte_that_was_read_ahead_comes_together_with_what_follows() {
        let (near, mut far) = tokio::io::duplex(16);
        let mut near = ClientSocket::new(near, Duration::from_secs(1), SocketState::default());
        far.write_all(b"abcdef").await.expect("sends");
        near.flush().await.expect("looks ahead");
        let mut read = [0_u8; 8];
        assert_eq!(near.read(&mut read).await.expect("reads"), 6);
    }

    #[tokio::test(start_paused = true)]
    async fn only_an_end_long_after_the_request_fails() {
        let socket = || {
            let (near, far) = tokio::io::duplex(16);
            (ClientSocket::new(near, Duration::from_secs(1), SocketState::default()), far)
        };
        let (mut near, mut far) = socket();
        far.write_all(b"ab").await.expect("sends");
        near.flush().await.expect("nothing has ended");
        assert_eq!((near.read_u8().await.expect("a"), near.read_u8().await.expect("b")), (b'a', b'b'));
        far.shutdown().await.expect("ends");
        near.flush().await.expect("a half-closed client");
        tokio::time::sleep(AT_ONCE).await;
        near.flush().await.expect("still the same end");
        assert!(near.read_u8().await.is_err(), "hyper sees the end when it reads");
        let (mut near, mut far) = socket();
        far.write_all(b"ab").await.expect("sends");
        assert_eq!(near.read_u16().await.expect("both"), u16::from_be_bytes(*b"ab"));
        tokio::time::sleep(AT_ONCE).await;
        drop(far);
        let left = near.flush().await.expect_err("the reader left");
        assert_eq!(left.kind(), io::ErrorKind::ConnectionAborted);
    }
}
