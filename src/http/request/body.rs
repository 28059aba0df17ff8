//! Reads request bodies within `limits.body_bytes`, `limits.bodies_bytes` and `limits.body_timeout_s`.
//! After a body has arrived, its sender is checked again: the account, role or key may be gone by then.

use super::quoted::quoted;
use crate::domain::limits::Limits;
use crate::http::auth;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{HeaderMap, header};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The body as it arrives.
pub(crate) struct RequestBody {
    body: Incoming,
    sender: BodySender,
}

/// The sender of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodySender(Caller);

impl BodySender {
    /// Fails when the sender would no longer be admitted.
    pub(crate) fn confirm(self, context: &ServerContext) -> Result<(), ApiError> {
        auth::confirm(context, self.0)
    }
}

impl RequestBody {
    pub(crate) fn new(body: Incoming, caller: Caller) -> Self {
        Self { body, sender: BodySender(caller) }
    }

    /// The sender, to be confirmed when all has arrived.
    pub(crate) fn sender(&self) -> BodySender {
        self.sender
    }
}

impl Body for RequestBody {
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

/// At most this much is reserved because of `Content-Length` alone.
const RESERVE_BYTES: usize = 64 * 1024;

/// A complete body and its share of `limits.bodies_bytes`, held until it is parsed.
pub(crate) struct BufferedBody {
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: BodyMemory,
}

/// A share of `limits.bodies_bytes`. It grows with the bytes that have arrived: `Content-Length` alone
/// would let idle clients take it all.
#[derive(Debug, Default)]
pub(crate) struct BodyMemory(Option<OwnedSemaphorePermit>);

impl BodyMemory {
    /// Takes `bytes` more, if they are free.
    pub(crate) fn grow(&mut self, free: &Arc<Semaphore>, bytes: usize) -> Option<()> {
        let more = Arc::clone(free).try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        match &mut self.0 {
            Some(held) => held.merge(more),
            None => self.0 = Some(more),
        }
        Some(())
    }
}

/// Reads a body of at most `limits.body_bytes`.
pub(crate) async fn read(
    context: &ServerContext,
    headers: &HeaderMap,
    body: RequestBody,
) -> Result<BufferedBody, ApiError> {
    read_up_to(context, headers, body, context.app.limits.body_bytes).await
}

/// Reads a body of at most `most` bytes.
pub(crate) async fn read_up_to(
    context: &ServerContext,
    headers: &HeaderMap,
    body: RequestBody,
    most: usize,
) -> Result<BufferedBody, ApiError> {
    refuse_encoding(headers)?;
    let limits = &context.app.limits;
    let declared = body.size_hint().lower();
    if declared > most as u64 {
        return Err(too_large(limits, most));
    }
    let (deadline, sender) = (Duration::from_secs(limits.body_timeout_s), body.sender());
    match tokio::time::timeout(deadline, collect(context, body, most)).await {
        Ok(collected) => sender.confirm(context).and(collected),
        Err(_) => Err(ApiError::BodyTimeout(limits.body_timeout_s)),
    }
}

/// Only `identity` bodies are accepted.
pub(crate) fn refuse_encoding(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers
        .get(header::CONTENT_ENCODING)
        .filter(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        Some(encoding) => Err(ApiError::Encoding(quoted(&String::from_utf8_lossy(encoding.as_bytes())))),
        None => Ok(()),
    }
}

fn too_large(limits: &Limits, most: usize) -> ApiError {
    if most == limits.body_bytes {
        return ApiError::BodyTooLarge(most);
    }
    ApiError::UploadTooLarge(format!("the request body is larger than {most} bytes"))
}

async fn collect(
    context: &ServerContext,
    mut body: RequestBody,
    most: usize,
) -> Result<BufferedBody, ApiError> {
    let limits = &context.app.limits;
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut bytes = Vec::with_capacity(declared.min(RESERVE_BYTES));
    let mut place = BodyMemory::default();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| ApiError::malformed("the request body broke off"))?;
        let Ok(data) = frame.into_data() else { continue }; // trailers are ignored
        if bytes.len() + data.len() > most {
            return Err(too_large(limits, most));
        }
        place.grow(&context.bodies, data.len()).ok_or(ApiError::BodiesFull(limits.bodies_bytes))?;
        if bytes.capacity() - bytes.len() < data.len() {
            // Doubles, but never beyond the announced length, which is not counted against the limit yet.
            let announced = declared.saturating_sub(bytes.len());
            bytes.reserve_exact(bytes.len().min(announced).max(data.len()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(BufferedBody { bytes, place })
}
