//! Reads request bodies within `limits.body_bytes`, `limits.bodies_bytes` and `limits.body_timeout_s`.
//! After a body has arrived, its sender is checked again: the account, role or key may be gone by then.

use super::context::RequestContext;
use super::quoted::quoted;
use crate::domain::id::UserId;
use crate::domain::limits::Limits;
use crate::http::auth;
use crate::http::auth::Caller;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::server::client_body::ClientBody;
use crate::http::server::client_socket::SocketState;
#[cfg(test)]
use crate::http::shares::SharedBudget;
use crate::http::shares::{HeldShare, ShareOwner, ShareRefusal};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::{HeaderMap, header};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::Instant;

/// The body as it arrives.
pub(crate) struct RequestBody {
    body: ClientBody,
    sender: BodySender,
    /// Whose share of `limits.bodies_bytes` it uses.
    owner: Option<ShareOwner>,
    socket: SocketState,
}

/// The sender of a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodySender(Caller);

impl BodySender {
    pub(crate) fn user(self) -> UserId {
        self.0.user
    }

    /// Fails when the sender would no longer be admitted.
    pub(crate) fn confirm(self, context: &ServerContext) -> Result<(), ApiError> {
        auth::confirm(context, self.0)
    }
}

impl RequestBody {
    pub(crate) fn new(body: ClientBody, request: &RequestContext) -> Self {
        let RequestContext { caller, owner, socket, .. } = request;
        Self { body, sender: BodySender(*caller), owner: *owner, socket: socket.clone() }
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
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() {
            self.socket.body_read();
        }
        Poll::Ready(frame)
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

/// Up to this size a body may use the reserve of `limits.bodies_bytes`.
const SMALL_BYTES: usize = 64 * 1024;

/// A share of `limits.bodies_bytes`. It grows with the bytes that have arrived: `Content-Length` alone
/// would let idle clients take it all.
#[derive(Debug)]
pub(crate) struct BodyMemory(HeldShare);

impl BodyMemory {
    /// The memory of a body, of which nothing has arrived yet.
    pub(crate) fn of(context: &ServerContext, body: &RequestBody) -> Self {
        Self::of_owner(context, body.owner)
    }

    /// The same for messages of a connection.
    pub(crate) fn of_owner(context: &ServerContext, owner: Option<ShareOwner>) -> Self {
        Self(HeldShare::new(&context.bodies, owner))
    }

    /// What was taken so far. The next message begins with nothing.
    pub(crate) fn split(&mut self) -> Self {
        let next = Self(self.0.another());
        std::mem::replace(self, next)
    }

    /// Takes `bytes` more, if they are free and the client's share has them.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ApiError> {
        let whole = self.0.budget().whole();
        self.0.grow(bytes, SMALL_BYTES).map_err(|refusal| match refusal {
            ShareRefusal::Full => ApiError::BodiesFull(whole),
            ShareRefusal::Share => ApiError::TooMany {
                message: format!(
                    "your request bodies under way fill your share of limits.bodies_bytes = {whole} bytes; send \
                     fewer at the same time, and try again"
                ),
                retry_after_s: 1,
            },
        })
    }

    /// Without limits that matter, for tests of bodies without a server.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self(HeldShare::new(&SharedBudget::new(usize::MAX, 0, 0), None))
    }

    /// Returns all of it: what was read is on the disk.
    pub(crate) fn release(&mut self) {
        self.0.clear();
    }

    /// Whether request bodies use at least half of `limits.bodies_bytes`.
    fn is_scarce(&self) -> bool {
        self.0.budget().is_half_taken()
    }
}

/// How often the rate of a body is checked.
const PACE_TIME: Duration = Duration::from_secs(5);
/// What has to arrive in this time while memory is scarce.
const PACE_BYTES: usize = 64 * 1024;

/// The rate of a body. While memory is scarce, a body that hardly arrives is refused, so that nobody holds
/// memory by sending slowly. Only the time that the server waits for the client counts.
#[derive(Debug, Default)]
pub(crate) struct BodyPace {
    waited: Duration,
    bytes: usize,
}

impl BodyPace {
    /// The next data of a body; `None` at its end. Its bytes are taken from `memory`.
    pub(crate) async fn next(
        &mut self,
        body: &mut RequestBody,
        memory: &mut BodyMemory,
    ) -> Result<Option<Bytes>, ApiError> {
        loop {
            let began = Instant::now();
            let next = tokio::time::timeout(PACE_TIME.saturating_sub(self.waited), body.frame()).await;
            self.waited = self.waited.saturating_add(began.elapsed());
            if next.is_err() {
                self.check(memory)?;
                continue;
            }
            let Ok(Some(frame)) = next else { return Ok(None) };
            let frame = frame.map_err(|_| ApiError::malformed("the request body broke off"))?;
            // Trailers are ignored.
            if let Ok(data) = frame.into_data() {
                self.bytes = self.bytes.saturating_add(data.len());
                memory.grow(data.len())?;
                return Ok(Some(data));
            }
        }
    }

    fn check(&mut self, memory: &BodyMemory) -> Result<(), ApiError> {
        let Self { bytes, .. } = std::mem::take(self);
        if bytes < PACE_BYTES && memory.is_scarce() {
            return Err(ApiError::BodySlow { bytes: PACE_BYTES, seconds: PACE_TIME.as_secs() });
        }
        Ok(())
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
    let (mut place, mut rate) = (BodyMemory::of(context, &body), BodyPace::default());
    while let Some(data) = rate.next(&mut body, &mut place).await? {
        if bytes.len() + data.len() > most {
            return Err(too_large(limits, most));
        }
        if bytes.capacity() - bytes.len() < data.len() {
            // Doubles, but never beyond the announced length, which is not counted against the limit yet.
            let announced = declared.saturating_sub(bytes.len());
            bytes.reserve_exact(bytes.len().min(announced).max(data.len()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(BufferedBody { bytes, place })
}
