//! A reply as server-sent events: notifications of progress, then the reply itself. When the client leaves,
//! the stream is dropped, and the request with it.

use crate::http::context::ServerContext;
use crate::http::response::stream_body::{BodyError, StreamBody};
use crate::http::response::{self, HttpResponse};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use bytes::Bytes;
use futures_util::stream::try_unfold;
use serde_json::Value;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;

/// A comment follows this silence, so that proxies keep the connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

type PerformedRequest = Pin<Box<dyn Future<Output = Option<Value>> + Send>>;

struct ReplyStream {
    notifications: mpsc::Receiver<Value>,
    /// `None` after the reply. It resolves to `None` if the request was cancelled.
    performed: Option<PerformedRequest>,
    shutdown: Shutdown,
}

/// The response whose stream performs the request.
pub(super) fn open(
    context: &ServerContext,
    notifications: mpsc::Receiver<Value>,
    performed: impl Future<Output = Option<Value>> + Send + 'static,
) -> HttpResponse {
    let shutdown = context.shutdown.clone();
    let stream = ReplyStream { notifications, performed: Some(Box::pin(performed)), shutdown };
    response::events("text/event-stream", StreamBody::new(try_unfold(stream, ReplyStream::next)))
}

impl ReplyStream {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, BodyError> {
        let Some(performed) = &mut self.performed else { return Ok(None) };
        tokio::select! {
            biased;
            Some(notification) = self.notifications.recv() => Ok(Some((event(&notification), self))),
            reply = performed => {
                self.performed = None;
                Ok(reply.map(|reply| (event(&reply), self)))
            }
            () = tokio::time::sleep(HEARTBEAT) => Ok(Some((Bytes::from_static(b": \n\n"), self))),
            () = self.shutdown.reached(ShutdownStage::Closing) => Ok(None),
        }
    }
}

/// JSON escapes line breaks, so the data is one line.
fn event(message: &Value) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
