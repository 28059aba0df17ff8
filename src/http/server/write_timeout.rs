//! Fails a write that makes no progress. Reads have limits of their own elsewhere.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// Fails a write that makes no progress for `limit`. The timer exists only while a write waits, so that
/// idle connections cost nothing.
#[derive(Debug)]
pub(crate) struct WriteTimeout<IO> {
    io: IO,
    limit: Duration,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<IO> WriteTimeout<IO> {
    pub(crate) fn new(io: IO, limit: Duration) -> Self {
        Self { io, limit, alarm: None }
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

impl<IO: AsyncRead + Unpin> AsyncRead for WriteTimeout<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buffer)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<IO> {
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
        let mut near = WriteTimeout::new(near, Duration::from_millis(300));
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
}
