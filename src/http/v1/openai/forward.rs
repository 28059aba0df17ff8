//! `POST /v1/embeddings` and `/v1/completions`: passed on to the model's provider, with the configured name,
//! key, address and limits. They are no jobs: nothing is stored but their tokens, and nothing is repeated.
//! Each waits for a provider and a client, so it has a thread of its own, and a client a share of them.

use super::body::KeyedBody;
use super::failure;
use crate::domain::id::UserId;
use crate::http::auth::ACCESS_LOST;
use crate::http::blocking::{CancelOnDrop, on_own_thread};
use crate::http::context::{FORWARDS, ServerContext};
use crate::http::dependencies::AppDependencies;
use crate::http::error::ApiError;
use crate::http::middleware::revocation;
use crate::http::request::body::RequestBody;
use crate::http::request::context::RequestContext;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HandlerResult};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::shares::{HeldShare, ShareOwner};
use crate::http::v1::jobs::spec;
use crate::ports::{
    CancelReason, CancelToken, ForwardEndpoint, ForwardError, ForwardOutcome, ForwardRequest, ModelError,
};
use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Map, Value};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Pieces of an answer that wait for a slow client.
const PIECES: usize = 4;
/// How long a call waits for its client in all. A client that reads more slowly would hold a call of the
/// provider.
const CLIENT_WAIT: Duration = Duration::from_secs(60);
/// `Retry-After` when too many calls are under way, seconds.
const RETRY_AFTER_S: u64 = 1;

/// Vectors for texts.
pub(crate) async fn embeddings(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    forward(context, request, body, ForwardEndpoint::Embeddings).await
}

/// Continuations of texts, as before there were chats; whole or streamed.
pub(crate) async fn completions(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
) -> HandlerResult {
    forward(context, request, body, ForwardEndpoint::Completions).await
}

async fn forward(
    context: &Arc<ServerContext>,
    request: RequestContext,
    body: RequestBody,
    endpoint: ForwardEndpoint,
) -> HandlerResult {
    let (user, owner) = (request.user, request.owner);
    let (caller, socket) = (request.caller, request.socket.clone());
    let body = KeyedBody::read(context, (user, &request.headers), body, endpoint.path()).await?;
    drop(request); // frees the headers while the call runs
    let asked = body.parse(context, move |map, app| read(map, user, endpoint, app));
    let asked = asked.await.map_err(failure::of_request)?;
    let is_stream = endpoint == ForwardEndpoint::Completions
        && asked.body.get("stream").and_then(Value::as_bool) == Some(true);
    socket.end_with_input();
    let mut answer = ForwardedStream::begin(context, (user, owner), asked)?;
    let Some(first) = answer.piece().await? else { return Err(ApiError::Internal) };
    let kind = if is_stream { "text/event-stream" } else { "application/json" };
    let pieces = ForwardedPieces { first: Some(first), answer, is_stream };
    Ok(response::events(kind, StreamBody::new(pieces, revocation::signal(context, caller))))
}

/// An answer, of which the first piece has arrived.
struct ForwardedPieces {
    first: Option<Bytes>,
    answer: ForwardedStream,
    is_stream: bool,
}

impl BodySource for ForwardedPieces {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.answer.next(self.is_stream).await,
        }
    }

    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        if self.is_stream {
            return Ok(Some(failure::frame(&ApiError::Unauthorized(ACCESS_LOST)).into()));
        }
        Err(BodyError::new(ACCESS_LOST))
    }
}

fn read(
    body: Map<String, Value>,
    user: UserId,
    endpoint: ForwardEndpoint,
    app: &AppDependencies,
) -> Result<ForwardRequest, ApiError> {
    let input = endpoint.input_field();
    if body.get(input).is_none_or(Value::is_null) {
        return Err(failure::missing(input, "a text, or a list"));
    }
    let model = match body.get("model") {
        Some(Value::String(model)) => spec::model(Some(model.clone()), app)?,
        None | Some(Value::Null) => return Err(failure::missing("model", failure::MODEL_ADVICE)),
        Some(_) => return Err(ApiError::value("model", "'model' must be a string".to_owned())),
    };
    Ok(ForwardRequest { user, endpoint, model, body })
}

/// The end of the call, once it is known.
type Outcome = Pin<Box<dyn Future<Output = Result<Result<(), ApiError>, ApiError>> + Send>>;

/// An answer as it arrives from the provider.
struct ForwardedStream {
    pieces: mpsc::Receiver<Bytes>,
    outcome: Option<Outcome>,
    stop: CancelOnDrop,
    shutdown: Shutdown,
}

impl ForwardedStream {
    /// Begins the call on a thread of its own.
    fn begin(
        context: &Arc<ServerContext>,
        (user, owner): (UserId, Option<ShareOwner>),
        asked: ForwardRequest,
    ) -> Result<Self, ApiError> {
        let turn = HeldShare::place(&context.forwards, owner).map_err(|_| ApiError::TooMany {
            message: format!(
                "your requests that are passed on to providers fill your share of the {FORWARDS} that may be under \
                 way; try again when some have ended"
            ),
            retry_after_s: RETRY_AFTER_S,
        })?;
        let app = Arc::clone(&context.app);
        let time = Duration::from_secs(app.limits.job_timeout_s);
        let stop = CancelToken::new(Arc::clone(&app.clock)).with_timeout(time);
        let (sender, pieces) = mpsc::channel(PIECES);
        let mut client = ClientPieces { sender, runtime: Handle::current(), wait_left: CLIENT_WAIT };
        let cancel = stop.clone();
        let outcome = on_own_thread("forward", move || {
            let _turn = turn; // held until the call has ended, even if the client leaves
            let ForwardOutcome { usage, result } =
                app.model.forward(&asked, &cancel, &mut |piece: &[u8]| client.send(piece));
            if usage.total_tokens > 0
                && let Err(error) = app.accounts.book_usage(user, asked.model, usage).wait()
            {
                tracing::error!(%error, "the tokens of a request that was passed on were not booked");
            }
            if client.wait_left.is_zero() { Err(slow_client()) } else { result.map_err(api_error) }
        });
        let shutdown = context.shutdown.clone();
        Ok(Self { pieces, outcome: Some(Box::pin(outcome)), stop: CancelOnDrop(stop), shutdown })
    }

    /// The next piece; `None` at the end of a whole answer.
    async fn piece(&mut self) -> Result<Option<Bytes>, ApiError> {
        tokio::select! {
            biased;
            piece = self.pieces.recv() => if piece.is_some() {
                return Ok(piece);
            },
            () = self.shutdown.reached(ShutdownStage::Closing) => {
                self.stop.0.cancel(CancelReason::Shutdown);
                return Err(ApiError::Refused {
                    status: StatusCode::SERVICE_UNAVAILABLE,
                    code: "shutting_down",
                    message: "the server is stopping; send the request again when it runs".to_owned(),
                });
            }
        }
        match self.outcome.take() {
            Some(outcome) => outcome.await?.map(|()| None),
            None => Ok(None),
        }
    }

    /// The next piece of a response whose head was sent. A stream ends with its error; anything else is cut
    /// off, so that nobody takes it for whole.
    async fn next(&mut self, is_stream: bool) -> Result<Option<Bytes>, BodyError> {
        match self.piece().await {
            Ok(piece) => Ok(piece),
            Err(error) if is_stream => {
                self.outcome = None;
                self.pieces.close();
                Ok(Some(failure::frame(&error).into()))
            }
            Err(error) => Err(BodyError::new(error.to_string())),
        }
    }
}

/// The way of pieces to the client.
struct ClientPieces {
    sender: mpsc::Sender<Bytes>,
    runtime: Handle,
    /// How long it may still wait; nothing once the client has read too slowly.
    wait_left: Duration,
}

impl ClientPieces {
    /// Waits until the client has read earlier pieces. It breaks when the client leaves or reads too slowly.
    fn send(&mut self, piece: &[u8]) -> ControlFlow<()> {
        let piece = match self.sender.try_send(Bytes::copy_from_slice(piece)) {
            Ok(()) => return ControlFlow::Continue(()),
            Err(TrySendError::Closed(_)) => return ControlFlow::Break(()),
            Err(TrySendError::Full(piece)) => piece,
        };
        let begin = tokio::time::Instant::now();
        let sending = async { tokio::time::timeout(self.wait_left, self.sender.send(piece)).await };
        let sent = self.runtime.block_on(sending);
        self.wait_left = self.wait_left.saturating_sub(begin.elapsed());
        match sent {
            Ok(Ok(())) if !self.wait_left.is_zero() => ControlFlow::Continue(()),
            Ok(Err(_)) => ControlFlow::Break(()),
            _ => {
                self.wait_left = Duration::ZERO;
                ControlFlow::Break(())
            }
        }
    }
}

fn slow_client() -> ApiError {
    let seconds = CLIENT_WAIT.as_secs();
    let message = format!(
        "the answer was cut off: its client let the provider wait for more than {seconds} seconds; read faster"
    );
    ApiError::Refused { status: StatusCode::REQUEST_TIMEOUT, code: "slow_client", message }
}

/// The error of a request that the provider did not answer.
fn api_error(error: ForwardError) -> ApiError {
    let message = error.to_string();
    let (status, code) = match error {
        ForwardError::NotOffered(_) => (StatusCode::NOT_FOUND, "not_offered"),
        ForwardError::Failed(error) => match error {
            ModelError::NotFound(_) | ModelError::UnknownModel(_) => {
                (StatusCode::NOT_FOUND, "model_not_found")
            }
            ModelError::Refused(_) => (StatusCode::BAD_REQUEST, "invalid_request"),
            ModelError::Filtered(_) => (StatusCode::BAD_REQUEST, "content_filter"),
            ModelError::ContextTooLong(_) => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            ModelError::Busy { retry_after_ms, .. }
            | ModelError::Unavailable { retry_after_ms: Some(retry_after_ms), .. } => {
                return failure::rate_limited(message, Some(retry_after_ms));
            }
            ModelError::RateLimited { retry_after_ms, .. } => {
                return failure::rate_limited(message, retry_after_ms);
            }
            ModelError::Denied(_) | ModelError::Unavailable { .. } => {
                (StatusCode::BAD_GATEWAY, "provider_error")
            }
            ModelError::TooLarge(_) => (StatusCode::BAD_GATEWAY, "output_too_large"),
            ModelError::Stopped => (StatusCode::GATEWAY_TIMEOUT, "timeout"),
        },
    };
    ApiError::Refused { status, code, message }
}
