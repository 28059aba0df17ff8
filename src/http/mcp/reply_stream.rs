//! A reply as server-sent events: notifications of progress, then the reply itself. When the client leaves,
//! the stream is dropped, and the request with it.

use crate::http::auth::{ACCESS_LOST, Caller};
use crate::http::context::ServerContext;
use crate::http::middleware::revocation;
use crate::http::response::stream_body::{BodyError, BodySource, StreamBody};
use crate::http::response::{self, HttpResponse};
use crate::http::server::shutdown::{Shutdown, ShutdownStage};
use bytes::Bytes;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
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
    context: &Arc<ServerContext>,
    caller: Caller,
    notifications: mpsc::Receiver<Value>,
    performed: impl Future<Output = Option<Value>> + Send + 'static,
) -> HttpResponse {
    let shutdown = context.shutdown.clone();
    let stream = ReplyStream { notifications, performed: Some(Box::pin(performed)), shutdown };
    let body = StreamBody::new(stream, revocation::signal(context, caller));
    response::events("text/event-stream", body)
}

impl BodySource for ReplyStream {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        let Some(performed) = &mut self.performed else { return Ok(None) };
        tokio::select! {
            biased;
            Some(notification) = self.notifications.recv() => Ok(Some(event(&notification))),
            reply = performed => {
                self.performed = None;
                Ok(reply.map(|reply| event(&reply)))
            }
            () = tokio::time::sleep(HEARTBEAT) => Ok(Some(Bytes::from_static(b": \n\n"))),
            () = self.shutdown.reached(ShutdownStage::Closing) => Ok(None),
        }
    }

    fn end_revoked(&mut self) -> Result<Option<Bytes>, BodyError> {
        Ok(Some(format!(": {ACCESS_LOST}\n\n").into()))
    }
}

/// JSON escapes line breaks, so the data is one line.
fn event(message: &Value) -> Bytes {
    format!("event: message\ndata: {message}\n\n").into()
}
