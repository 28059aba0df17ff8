//! The responses of a connection, one after the other.

use super::{error_event, message};
use crate::http::auth::{self, ACCESS_LOST, Caller, RevocationSignal};
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::BufferedBody;
use crate::http::request::context::RequestContext;
use crate::http::response::upgrade::UpgradedSocket;
use crate::http::server::client_socket::SocketState;
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use crate::http::shares::ShareOwner;
use crate::http::v1::jobs::stream::store_new;
use crate::http::v1::openai::body::KeyedBody;
use crate::http::v1::openai::failure;
use crate::http::v1::openai::headers::JobHeaders;
use crate::http::v1::openai::responses::fold::ResponseFold;
use crate::http::v1::openai::responses::request::{ResponseJob, ResponsesRequest};
use crate::http::v1::openai::responses::stream::{ResponseNews, ResponseReader, StreamReader};
use crate::http::v1::openai::responses::unstored::UnstoredResponse;
use crate::http::v1::openai::responses::{self, ids};
use crate::http::web_socket::socket::{CloseCode, MessageSocket, SocketEnd};
use hyper::StatusCode;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// The document has 60 minutes.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// Between two pings.
const PING: Duration = Duration::from_secs(15);
/// A client that waits for nothing and is not heard for this time is gone. Some answer pings only when they
/// read, and run their tools meanwhile.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// Messages that wait while a response is under way.
const MOST_WAITING: usize = 16;

/// A WebSocket, from its 101 to its end.
pub(super) struct ResponseSession {
    context: Arc<ServerContext>,
    caller: Caller,
    owner: Option<ShareOwner>,
    headers: JobHeaders,
    client: SocketState,
    shutdown: Shutdown,
    opened_at: Instant,
    pings: Interval,
    /// Messages behind the response under way.
    waiting: VecDeque<BufferedBody>,
    /// The last response, if it is not stored.
    kept: Option<UnstoredResponse>,
}

/// The response to a message.
struct Turn {
    /// Before the reader, whose drop cancels the job: fields are dropped in this order.
    unstored: Option<UnstoredResponse>,
    /// It continues the response that the connection keeps.
    continues_kept: bool,
    reader: ResponseReader,
}

impl ResponseSession {
    pub(super) fn new(context: &Arc<ServerContext>, request: &RequestContext, headers: JobHeaders) -> Self {
        let mut pings = tokio::time::interval(PING);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pings.reset();
        Self {
            context: Arc::clone(context),
            caller: request.caller,
            owner: request.owner,
            headers,
            client: request.socket.clone(),
            shutdown: context.shutdown.clone(),
            opened_at: Instant::now(),
            pings,
            waiting: VecDeque::new(),
            kept: None,
        }
    }

    /// Answers messages until one side ends the connection, or its caller loses its access.
    pub(super) async fn run(
        mut self,
        io: UpgradedSocket,
        mut signal: RevocationSignal,
    ) -> Option<UpgradedSocket> {
        let mut socket = MessageSocket::new(io, &self.context, self.owner).await;
        let end = tokio::select! {
            biased;
            () = signal.revoked() => access_lost(Some(ApiError::Unauthorized(ACCESS_LOST))),
            end = self.speak(&mut socket) => end,
        };
        if let SocketEnd::Closed { error: Some(error), .. } = &end {
            drop(socket.send(error_event::text(error, None)).await);
        }
        self.waiting.clear();
        Some(socket.close(end).await)
    }

    async fn speak(&mut self, socket: &mut MessageSocket) -> SocketEnd {
        loop {
            if let Err(end) = self.step(socket).await {
                return end;
            }
        }
    }

    async fn step(&mut self, socket: &mut MessageSocket) -> Result<(), SocketEnd> {
        if self.shutdown.stage() >= ShutdownStage::Draining {
            return Err(SocketEnd::away("the server is stopping"));
        }
        if self.opened_at.elapsed() >= LONGEST {
            return Err(lasted_long_enough());
        }
        let message = match self.waiting.pop_front() {
            Some(message) => message,
            None => self.next_message(socket).await?,
        };
        // Boxed: a connection that waits has no room for the state of a response.
        Box::pin(self.answer(socket, message)).await
    }

    async fn next_message(&mut self, socket: &mut MessageSocket) -> Result<BufferedBody, SocketEnd> {
        let end = self.opened_at + LONGEST;
        loop {
            tokio::select! {
                biased;
                message = socket.next() => return message,
                () = self.shutdown.reached(ShutdownStage::Draining) => {
                    return Err(SocketEnd::away("the server is stopping"));
                }
                () = tokio::time::sleep_until(end) => return Err(lasted_long_enough()),
                _ = self.pings.tick() => {
                    if socket.heard_at().elapsed() >= SILENCE {
                        return Err(SocketEnd::away("not heard for 15 minutes"));
                    }
                    socket.ping().await?;
                }
            }
        }
    }

    /// Answers a message with the events of a response, or with an error.
    async fn answer(&mut self, socket: &mut MessageSocket, message: BufferedBody) -> Result<(), SocketEnd> {
        let mut turn = match self.begin(message).await {
            Ok(turn) => turn,
            Err(error) => return refuse(socket, error, None).await,
        };
        loop {
            tokio::select! {
                biased;
                message = socket.next() => self.wait(socket, message?).await?,
                news = turn.reader.next() => match news {
                    ResponseNews::Events(events) => {
                        for event in events {
                            socket.send(event.data).await?;
                        }
                    }
                    ResponseNews::Silence => {}
                    ResponseNews::Failed { error, number } => return refuse(socket, error, Some(number)).await,
                    ResponseNews::End => break,
                },
                _ = self.pings.tick() => socket.ping().await?,
            }
        }
        self.end(turn);
        Ok(())
    }

    /// Keeps a message until the response under way has ended.
    async fn wait(&mut self, socket: &mut MessageSocket, message: BufferedBody) -> Result<(), SocketEnd> {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(message);
            return Ok(());
        }
        let message = format!("more than {MOST_WAITING} messages wait for the response under way");
        refuse(socket, ApiError::TooMany { message, retry_after_s: 1 }, None).await
    }

    /// Stores the job of a message.
    async fn begin(&mut self, message: BufferedBody) -> Result<Turn, ApiError> {
        self.admit()?;
        let (context, user) = (Arc::clone(&self.context), self.caller.user);
        let body = KeyedBody::of_message(&context, user, message).await?;
        let asked = body.parse(&context, |map, _| message::read(map)).await.map_err(failure::of_request)?;
        let continues_kept = self.continues_kept(&asked);
        let begun = self.store(asked, continues_kept).await;
        if begun.is_err() && continues_kept {
            self.kept = None; // as the document has it
        }
        begun
    }

    async fn store(&self, mut asked: ResponsesRequest, continues_kept: bool) -> Result<Turn, ApiError> {
        let (context, caller) = (&self.context, self.caller);
        asked.kept = self.kept.as_ref().map(|kept| kept.job);
        let job = responses::job(context, (asked, self.headers.clone()), caller.user).await;
        let ResponseJob { spec, request, .. } = job.map_err(failure::of_request)?;
        let stored = store_new(context, (caller, self.client.clone()), spec, None).await?;
        let fold = ResponseFold::new(&stored.job, &request).streamed(None);
        let unstored = UnstoredResponse::of(context, caller.user, stored.job.id, &request);
        // The connection keeps the response, so its reader does not.
        let reader = StreamReader { caller, guard: stored.guard, unstored: None };
        let reader = ResponseReader::new(context, fold, reader);
        Ok(Turn { unstored, continues_kept, reader })
    }

    fn continues_kept(&self, asked: &ResponsesRequest) -> bool {
        let named = asked.previous_response_id.as_deref().and_then(ids::job_of);
        self.kept.as_ref().is_some_and(|kept| Some(kept.job) == named)
    }

    /// What the route checks before it reads a body.
    fn admit(&self) -> Result<(), ApiError> {
        let context = &self.context;
        auth::confirm(context, self.caller)?;
        auth::count_message(context, self.caller.user)
    }

    /// The connection keeps its last response; a failed one leaves nothing to continue.
    fn end(&mut self, turn: Turn) {
        let Turn { unstored, continues_kept, reader } = turn;
        if !reader.has_failed() {
            self.kept = unstored;
        } else if continues_kept {
            self.kept = None;
        }
    }
}

fn lasted_long_enough() -> SocketEnd {
    let error = ApiError::Refused {
        status: StatusCode::BAD_REQUEST,
        code: "websocket_connection_limit_reached",
        message: "the connection has reached its limit of 60 minutes; open another one to go on".to_owned(),
    };
    SocketEnd::Closed { code: CloseCode::Away, reason: "60 minutes", error: Some(error) }
}

fn access_lost(error: Option<ApiError>) -> SocketEnd {
    SocketEnd::Closed { code: CloseCode::Policy, reason: "please login", error }
}

/// Sends an error. One that ends the client's access or all streams ends the connection.
async fn refuse(socket: &mut MessageSocket, error: ApiError, number: Option<u64>) -> Result<(), SocketEnd> {
    socket.send(error_event::text(&error, number)).await?;
    match error {
        ApiError::Unauthorized(_) => Err(access_lost(None)),
        _ => Ok(()),
    }
}
