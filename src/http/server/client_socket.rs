//! The socket of a client under hyper. A write that makes no progress fails; reads have limits of their own
//! elsewhere.
//!
//! A client that closes its sending side after the request, as `nc -N` does, is answered. The end of its
//! input looks as if the client had left; only the time differs: `shutdown` follows the request at once, and
//! a reader leaves later. hyper (with `half_close`) reads nothing while it answers, so this socket looks for
//! the end of the input and fails when it comes late.

use futures_util::task::AtomicWaker;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Whether the end of a client's input ends its request. The socket shares it with its requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputPolicy(Arc<PolicyState>);

#[derive(Debug, Default)]
struct PolicyState {
    ends_with_input: AtomicBool,
    socket: AtomicWaker,
}

impl InputPolicy {
    /// A new request begins: its client may close its sending side.
    pub(crate) fn reset(&self) {
        self.0.ends_with_input.store(false, Ordering::SeqCst);
    }

    /// A client that closes its sending side has left.
    pub(crate) fn end_with_input(&self) {
        self.0.ends_with_input.store(true, Ordering::SeqCst);
        self.0.socket.wake();
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
    /// The byte behind those that hyper has read.
    ahead: Option<u8>,
    last_read: Instant,
    /// The input has ended, right after a request.
    is_half_closed: bool,
    policy: InputPolicy,
}

impl<IO> ClientSocket<IO> {
    pub(crate) fn new(io: IO, limit: Duration, policy: InputPolicy) -> Self {
        let last_read = Instant::now();
        Self { io, limit, alarm: None, ahead: None, last_read, is_half_closed: false, policy }
    }

    fn watch<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
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
    fn check_input(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.ahead.is_none() && !self.is_half_closed {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            if Pin::new(&mut self.io).poll_read(cx, &mut buffer)?.is_pending() {
                return Ok(());
            }
            self.ahead = buffer.filled().first().copied();
            self.is_half_closed = self.ahead.is_none();
            if self.is_half_closed && self.last_read.elapsed() >= AT_ONCE {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        if self.is_half_closed && self.policy.ends_with_input(cx) {
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
        let ahead = self.ahead.take();
        buffer.put_slice(ahead.as_slice());
        if let Poll::Pending = Pin::new(&mut self.io).poll_read(cx, buffer)?
            && ahead.is_none()
        {
            return Poll::Pending;
        }
        if buffer.filled().len() > before {
            self.last_read = Instant::now();
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientSocket<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write(cx, data);
        self.watch(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.watch(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_input(cx)?;
        let polled = Pin::new(&mut self.io).poll_flush(cx);
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
        let mut near = ClientSocket::new(near, Duration::from_millis(300), InputPolicy::default());
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

    #[tokio::test(start_paused = true)]
    async fn only_an_end_long_after_the_request_fails() {
        let socket = || {
            let (near, far) = tokio::io::duplex(16);
            (ClientSocket::new(near, Duration::from_secs(1), InputPolicy::default()), far)
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
