//! `multipart/form-data` on top of multer, with bounded memory and time.
//!
//! multer reads ahead as fast as bytes arrive. A gate hands it one piece of the body at a time, and only
//! when it needs more.

use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::{self, BodyMemory, RequestBody};
use bytes::Bytes;
use futures_util::Stream;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::CONTENT_TYPE;
use multer::{Field, Multipart};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// The time limit of an upload.
const WHOLE_TIME: Duration = Duration::from_secs(3_600);
/// Bytes without a new part: a preamble, or the headers of a part.
const HEAD_BYTES: usize = 16 * 1024;
/// The longest boundary (RFC 2046), bytes.
const BOUNDARY_BYTES: usize = 70;
/// The longest text field, bytes.
const TEXT_BYTES: usize = 16 * 1024;
/// Characters of the parser's message in an error.
const FAULT_CHARS: usize = 200;

/// A part of the form.
pub(crate) type FormPart = Field<'static>;

/// Time limits of an upload.
#[derive(Clone, Copy)]
struct UploadDeadline {
    idle_s: u64,
    deadline: Instant,
}

/// The form, part by part. A part is read to its end before the next one is asked for.
pub(crate) struct MultipartForm {
    parts: Multipart<'static>,
    gate: Arc<ReadGate>,
    memory: Arc<Mutex<BodyMemory>>,
    deadline: UploadDeadline,
}

impl MultipartForm {
    /// The form in a body. `example` are arguments of curl that send one.
    pub(crate) fn of_request(
        context: &ServerContext,
        headers: &HeaderMap,
        body: RequestBody,
        example: &str,
    ) -> Result<Self, ApiError> {
        body::refuse_encoding(headers)?;
        let boundary = boundary(headers, example)?;
        let limits = &context.app.limits;
        if body.size_hint().lower() > limits.upload_bytes {
            return Err(too_large(limits.upload_bytes));
        }
        let memory = Arc::new(Mutex::new(BodyMemory::of(context, &body)));
        let source = CountedBody { body, memory: Arc::clone(&memory), whole: 0, most: limits.upload_bytes };
        Ok(Self::of(source, boundary, memory, limits.body_timeout_s))
    }

    fn of<S>(source: S, boundary: String, memory: Arc<Mutex<BodyMemory>>, idle_s: u64) -> Self
    where
        S: Stream<Item = Result<Bytes, ApiError>> + Unpin + Send + 'static,
    {
        let gate = Arc::new(ReadGate::default());
        let parts = Multipart::new(GatedBody { source, gate: Arc::clone(&gate) }, boundary);
        Self {
            parts,
            gate,
            memory,
            deadline: UploadDeadline { idle_s, deadline: Instant::now() + WHOLE_TIME },
        }
    }

    /// The next part.
    pub(crate) async fn next(&mut self) -> Result<Option<FormPart>, ApiError> {
        let (gate, parts) = (&*self.gate, &mut self.parts);
        gate.reset();
        let read = poll_fn(|cx| gate.poll(cx, |cx| parts.poll_next_field(cx)));
        self.deadline.wait(read).await?.map_err(fault)
    }

    /// The next piece of a part's data.
    pub(crate) async fn piece(&self, part: &mut FormPart) -> Result<Option<Bytes>, ApiError> {
        let gate = &*self.gate;
        gate.reset();
        let read = poll_fn(|cx| gate.poll(cx, |cx| Pin::new(&mut *part).poll_next(cx)));
        self.deadline.wait(read).await?.transpose().map_err(fault)
    }

    /// A short text part.
    pub(crate) async fn text(&self, name: &str, mut part: FormPart) -> Result<String, ApiError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(&mut part).await? {
            if bytes.len() + piece.len() > TEXT_BYTES {
                return Err(ApiError::value(name, format!("'{name}' is longer than {TEXT_BYTES} bytes")));
            }
            bytes.extend_from_slice(&piece);
        }
        String::from_utf8(bytes).map_err(|_| ApiError::value(name, format!("'{name}' is not UTF-8")))
    }

    /// Releases the memory share: what was read is on the disk.
    pub(crate) fn release_memory(&self) {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).release();
    }
}

impl UploadDeadline {
    /// Waits within both limits.
    async fn wait<T>(self, read: impl Future<Output = Result<T, ApiError>>) -> Result<T, ApiError> {
        let until = self.deadline.min(Instant::now() + Duration::from_secs(self.idle_s));
        match tokio::time::timeout_at(until, read).await {
            Ok(read) => read,
            Err(_) => Err(ApiError::BodyTimeout(self.idle_s)),
        }
    }
}

fn boundary(headers: &HeaderMap, example: &str) -> Result<String, ApiError> {
    let announced = headers.get(CONTENT_TYPE).and_then(|line| line.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(announced).ok().filter(|found| !found.is_empty());
    boundary.filter(|found| found.len() <= BOUNDARY_BYTES).ok_or_else(|| {
        let rule = format!("the body must be multipart/form-data with a boundary (curl {example})");
        ApiError::value("Content-Type", rule)
    })
}

fn too_large(most: u64) -> ApiError {
    ApiError::UploadTooLarge(format!("the upload is larger than limits.upload_bytes = {most} bytes"))
}

/// Errors of the body pass through; all others are malformed forms.
fn fault(error: multer::Error) -> ApiError {
    match error {
        multer::Error::StreamReadFailed(inner) => {
            inner.downcast().map_or_else(|_| ApiError::malformed("the request body broke off"), |own| *own)
        }
        other => {
            let said: String = other.to_string().chars().take(FAULT_CHARS).collect();
            ApiError::malformed(format!("the multipart body is broken: {said}"))
        }
    }
}

/// Lets pieces of the body through one at a time.
#[derive(Debug, Default)]
struct ReadGate {
    is_open: AtomicBool,
    /// Bytes let through since the last reset.
    passed: AtomicUsize,
}

impl ReadGate {
    fn reset(&self) {
        self.passed.store(0, Ordering::Relaxed);
    }

    /// Polls the parser with what it has, then with one more piece each time, until it yields or the body
    /// has no more for now.
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut parse: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<Result<T, ApiError>> {
        if let Poll::Ready(parsed) = parse(cx) {
            return Poll::Ready(Ok(parsed));
        }
        loop {
            self.is_open.store(true, Ordering::Relaxed);
            let parsed = parse(cx);
            // Still open: nothing came. The body wakes us when it has more.
            let waits = self.is_open.swap(false, Ordering::Relaxed);
            if let Poll::Ready(parsed) = parsed {
                return Poll::Ready(Ok(parsed));
            }
            if self.passed.load(Ordering::Relaxed) > HEAD_BYTES {
                let rule =
                    format!("the multipart body has a part whose headers are longer than {HEAD_BYTES} bytes");
                return Poll::Ready(Err(ApiError::malformed(rule)));
            }
            if waits {
                return Poll::Pending;
            }
        }
    }
}

/// The body behind the gate.
struct GatedBody<S> {
    source: S,
    gate: Arc<ReadGate>,
}

impl<S: Stream<Item = Result<Bytes, ApiError>> + Unpin> Stream for GatedBody<S> {
    type Item = Result<Bytes, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.gate.is_open.load(Ordering::Relaxed) {
            return Poll::Pending; // the gate polls again
        }
        let next = ready!(Pin::new(&mut self.source).poll_next(cx));
        self.gate.is_open.store(false, Ordering::Relaxed);
        if let Some(Ok(piece)) = &next {
            self.gate.passed.fetch_add(piece.len(), Ordering::Relaxed);
        }
        Poll::Ready(next)
    }
}

/// A body that counts its bytes.
struct CountedBody {
    body: RequestBody,
    memory: Arc<Mutex<BodyMemory>>,
    whole: u64,
    most: u64,
}

impl CountedBody {
    fn count(&mut self, data: &Bytes) -> Result<(), ApiError> {
        self.whole = self.whole.saturating_add(data.len() as u64);
        if self.whole > self.most {
            return Err(too_large(self.most));
        }
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory.grow(data.len())
    }
}

impl Stream for CountedBody {
    type Item = Result<Bytes, ApiError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(None);
            };
            let Ok(frame) = frame else {
                return Poll::Ready(Some(Err(ApiError::malformed("the request body broke off"))));
            };
            // Trailers are ignored.
            if let Ok(data) = frame.into_data() {
                return Poll::Ready(Some(self.count(&data).map(|()| data)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
