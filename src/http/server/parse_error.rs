//! Words for the refusals that hyper writes by itself when it cannot read a request's head: they come with an empty body,
//! and every error of this server is JSON. Owns the rewriting of exactly those heads; refuses to touch any other byte.
//!
//! hyper offers no hook for them, so the socket looks: between two requests (none is being answered, and everything that
//! was answered has been flushed) the only thing that hyper ever writes is such a refusal.

use crate::http::middleware::request_id::RequestId;
use hyper::body::{Body, Frame, SizeHint};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// No request is under way, and nothing waits to be written.
const IDLE: u8 = 0;
/// A request is being answered.
const BUSY: u8 = 1;
/// The answer's last byte is made, but perhaps not written.
const ENDING: u8 = 2;

/// How far the current request has come; shared by the socket, the service and the answer's body, all of one task.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerProgress(Arc<AtomicU8>);

impl AnswerProgress {
    /// A request has been read; its answer's body will say when it is over.
    pub(crate) fn begin(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }

    /// Everything made so far is written. Whether that was the rest of an answer.
    fn flushed(&self) -> bool {
        let ended = self.0.load(Ordering::Relaxed) == ENDING;
        if ended {
            self.0.store(IDLE, Ordering::Relaxed);
        }
        ended
    }
}

/// A body that tells when hyper is done with it.
pub(crate) struct WatchedBody<B> {
    body: B,
    progress: AnswerProgress,
}

impl<B> WatchedBody<B> {
    pub(crate) fn new(body: B, progress: AnswerProgress) -> Self {
        Self { body, progress }
    }
}

impl<B> Drop for WatchedBody<B> {
    fn drop(&mut self) {
        self.progress.0.store(ENDING, Ordering::Relaxed);
    }
}

impl<B: Body + Unpin> Body for WatchedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that words hyper's refusals.
#[derive(Debug)]
pub(crate) struct ParseErrorSocket<IO> {
    io: IO,
    progress: AnswerProgress,
    /// A worded refusal on its way out.
    pending: Vec<u8>,
    /// Bytes of a request line so far, since the last answer; `None` once it has ended within `head_bytes`. hyper bounds a
    /// head as a whole; this tells whether the target alone was too long. (Of pipelined requests the line may have come
    /// before the last answer: then a refusal of headers is worded as one of the target.)
    line_bytes: Option<usize>,
    /// What hyper takes for a head.
    head_bytes: usize,
    /// The name of a request that cannot be read: it is its connection's last.
    request: RequestId,
    /// The status of the refusal, once there was one.
    refused: Option<u16>,
}

impl<IO> ParseErrorSocket<IO> {
    pub(crate) fn new(io: IO, progress: AnswerProgress, head_bytes: usize, request: RequestId) -> Self {
        Self { io, progress, pending: Vec::new(), line_bytes: Some(0), head_bytes, request, refused: None }
    }

    /// The status that hyper refused a head with.
    pub(crate) fn refused(&self) -> Option<u16> {
        self.refused
    }

    fn has_line(&self) -> bool {
        self.line_bytes.is_none()
    }

    /// Follows a request line as it comes.
    fn watch_line(&mut self, fresh: &[u8]) {
        let Some(before) = self.line_bytes.filter(|_| self.progress.is_idle()) else { return };
        let end = fresh.iter().position(|byte| *byte == b'\n').map(|at| before.saturating_add(at));
        let ended = end.is_some_and(|end| end < self.head_bytes);
        self.line_bytes = (!ended).then(|| before.saturating_add(fresh.len()));
    }
}

impl<IO: AsyncWrite + Unpin> ParseErrorSocket<IO> {
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.drain(..written);
        }
        Poll::Ready(Ok(()))
    }

    /// Whether this is a refusal of hyper's; then its worded form is on its way.
    fn takes(&mut self, head: &[u8]) -> bool {
        let worded = if self.progress.is_idle() { word(head, self.has_line(), &self.request) } else { None };
        let Some((status, worded)) = worded else { return false };
        self.refused = Some(status);
        self.pending.extend(worded);
        true
    }
}

/// The status, and the head with a body that says what is wrong; `None` if it is no wordless refusal.
fn word(head: &[u8], has_line: bool, request: &RequestId) -> Option<(u16, Vec<u8>)> {
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    let (status, headers) = head.split_once("\r\n")?;
    let code = status.strip_prefix("HTTP/1.1 ").or_else(|| status.strip_prefix("HTTP/1.0 "))?.get(..3)?;
    let too_long = ("the request target is too long", "target_too_long");
    let too_large = ("the request's headers pass limits.header_bytes or limits.headers", "headers_too_large");
    let (code, status, (message, name)) = match code {
        "400" => (400, status, ("the request is not valid HTTP/1.1", "malformed_request")),
        "414" => (414, status, too_long),
        "431" if !has_line => (414, "HTTP/1.1 414 URI Too Long", too_long),
        "431" => (431, status, too_large),
        _ => return None,
    };
    let error =
        serde_json::json!({"message": message, "type": "invalid_request_error", "param": null, "code": name});
    let body = format!("{}\n", serde_json::json!({ "error": error }));
    let kept: String = headers
        .split("\r\n")
        .filter(|line| !line.to_ascii_lowercase().starts_with("content-length:"))
        .flat_map(|line| [line, "\r\n"])
        .collect();
    let said = format!(
        "content-type: application/json\r\ncache-control: no-store\r\nx-request-id: {request}\r\n{}",
        crate::http::middleware::security_headers::lines()
    );
    let whole = format!("{status}\r\n{kept}{said}content-length: {}\r\n\r\n{body}", body.len());
    Some((code, whole.into_bytes()))
}

impl<IO: AsyncRead + Unpin> AsyncRead for ParseErrorSocket<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.io).poll_read(cx, buffer));
        self.watch_line(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(read)
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for ParseErrorSocket<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        if self.takes(data) {
            return Poll::Ready(Ok(data.len()));
        }
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_pending(cx))?;
        // A refusal is a head without a body: one slice.
        if let [only] = slices
            && self.takes(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        if self.progress.flushed() {
            self.line_bytes = Some(0);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_pending(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Entropy;

    struct Seven;

    impl Entropy for Seven {
        fn random(&self) -> u128 {
            7
        }
    }

    fn id() -> RequestId {
        RequestId::mint(&Seven)
    }

    #[test]
    fn only_wordless_refusals_get_words() {
        let (status, worded) =
            word(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\ndate: x\r\n\r\n", true, &id())
                .expect("a refusal");
        assert_eq!(status, 400);
        let text = String::from_utf8(worded).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
        assert!(
            head.contains(&format!("content-length: {}", body.len())) && head.contains("date: x"),
            "{head}"
        );
        assert!(head.contains("\r\nx-request-id: req_0000000000000007\r\n"), "{head}");
        assert_eq!(head.matches("content-length").count(), 1);
        assert!(body.contains("malformed_request"));
        for other in
            [&b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"[..], b"data: x\n\n", b"HTTP/1.1 400 Bad"]
        {
            assert!(word(other, true, &id()).is_none());
        }
    }

    #[test]
    fn an_answer_under_way_is_never_taken_for_a_refusal() {
        let progress = AnswerProgress::default();
        let mut socket = ParseErrorSocket::new(tokio::io::sink(), progress.clone(), 100, id());
        let forged = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
        progress.begin();
        assert!(!socket.takes(forged), "a job's own text may look like anything");
        drop(WatchedBody::new((), progress.clone()));
        assert!(!socket.takes(forged), "its tail may still be unwritten");
        progress.flushed();
        assert_eq!(socket.refused(), None);
        assert!(socket.takes(forged));
        assert_eq!(socket.refused(), Some(400), "for whoever counts answers");
    }
}
