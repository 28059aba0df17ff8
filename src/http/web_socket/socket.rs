//! Text messages of a client, one after the other, and those to it.

use super::counted_input::CountedInput;
use crate::http::context::ServerContext;
use crate::http::error::ApiError;
use crate::http::request::body::{BodyMemory, BufferedBody};
use crate::http::response::upgrade::UpgradedSocket;
use crate::http::shares::ShareOwner;
use futures_util::{SinkExt, StreamExt};
use std::time::Duration;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
pub(crate) use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Bytes, Error as FrameError, Message, error::ProtocolError};

/// Bytes that are read at once. A connection holds as much while it waits.
const READ_BYTES: usize = 4 * 1024;
/// The client answers a close frame in this time.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Why a WebSocket ends.
#[derive(Debug)]
pub(crate) enum SocketEnd {
    /// The client closed it, or is gone.
    Left,
    /// The server closes it, behind this error if there is one.
    Closed { code: CloseCode, reason: &'static str, error: Option<ApiError> },
}

impl SocketEnd {
    /// The server is about to end, or the connection lasted long enough.
    pub(crate) fn away(reason: &'static str) -> Self {
        Self::Closed { code: CloseCode::Away, reason, error: None }
    }
}

/// The server's end of a WebSocket.
pub(crate) struct MessageSocket {
    frames: WebSocketStream<CountedInput>,
    /// The largest message, bytes.
    most: usize,
    /// The longest time that a message takes to arrive, seconds.
    patience_s: u64,
}

impl MessageSocket {
    /// Messages have the limits of request bodies.
    pub(crate) async fn new(io: UpgradedSocket, context: &ServerContext, owner: Option<ShareOwner>) -> Self {
        let limits = &context.app.limits;
        let most = limits.body_bytes;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(most))
            .max_frame_size(Some(most));
        let input = CountedInput::new(io, BodyMemory::of_owner(context, owner));
        let frames = WebSocketStream::from_raw_socket(input, Role::Server, Some(config)).await;
        Self { frames, most, patience_s: limits.body_timeout_s }
    }

    /// Waits for the next message. Nothing is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Result<BufferedBody, SocketEnd> {
        loop {
            match self.frames.next().await {
                Some(Ok(Message::Text(text))) => {
                    let place = self.frames.get_mut().take_memory();
                    return Ok(BufferedBody { bytes: Bytes::from(text).into(), place });
                }
                Some(Ok(Message::Binary(_))) => {
                    return Err(SocketEnd::Closed {
                        code: CloseCode::Unsupported,
                        reason: "messages are JSON in text frames",
                        error: None,
                    });
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    drop(self.frames.get_mut().take_memory());
                }
                Some(Ok(Message::Close(_))) | None => return Err(SocketEnd::Left),
                Some(Err(error)) => return Err(self.end_of(&error)),
            }
        }
    }

    fn end_of(&mut self, error: &FrameError) -> SocketEnd {
        if let Some(refusal) = self.frames.get_mut().take_refusal() {
            let (code, reason) = (CloseCode::Again, "no memory for the message");
            return SocketEnd::Closed { code, reason, error: Some(refusal) };
        }
        tracing::debug!(%error, "a WebSocket broke off");
        let (code, reason, error) = match error {
            FrameError::Capacity(_) => {
                let error = ApiError::MessageTooLarge(self.most);
                (CloseCode::Size, "the message is too large", Some(error))
            }
            FrameError::Utf8(_) => (CloseCode::Invalid, "a text frame is UTF-8", None),
            FrameError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return SocketEnd::Left,
            FrameError::Protocol(_) => (CloseCode::Protocol, "not the WebSocket protocol", None),
            _ => return SocketEnd::Left,
        };
        SocketEnd::Closed { code, reason, error }
    }

    /// Sends a message. A client that does not read it is gone after `limits.write_stall_s`.
    pub(crate) async fn send(&mut self, text: String) -> Result<(), SocketEnd> {
        self.frames.send(Message::text(text)).await.map_err(|_| SocketEnd::Left)
    }

    /// Asks for a sign of life: proxies on the way see traffic, and a machine that is gone does not
    /// acknowledge it. Fails when a message takes too long to arrive.
    pub(crate) async fn ping(&mut self) -> Result<(), SocketEnd> {
        let began_at = self.frames.get_ref().began_at();
        if began_at.is_some_and(|began_at| began_at.elapsed() > Duration::from_secs(self.patience_s)) {
            let (code, reason) = (CloseCode::Policy, "the message did not arrive in time");
            return Err(SocketEnd::Closed {
                code,
                reason,
                error: Some(ApiError::BodyTimeout(self.patience_s)),
            });
        }
        self.frames.send(Message::Ping(Bytes::new())).await.map_err(|_| SocketEnd::Left)
    }

    /// When the client was last heard.
    pub(crate) fn heard_at(&self) -> Instant {
        self.frames.get_ref().heard_at()
    }

    /// Closes the WebSocket and returns its socket.
    pub(crate) async fn close(mut self, end: SocketEnd) -> UpgradedSocket {
        let closing = async {
            match end {
                SocketEnd::Left => self.frames.flush().await?,
                SocketEnd::Closed { code, reason, .. } => {
                    self.frames.close(Some(CloseFrame { code, reason: reason.into() })).await?;
                }
            }
            while self.frames.next().await.transpose()?.is_some() {
                drop(self.frames.get_mut().take_memory());
            }
            Ok::<(), FrameError>(())
        };
        drop(tokio::time::timeout(CLOSE_TIME, closing).await);
        self.frames.into_inner().into_inner()
    }
}
