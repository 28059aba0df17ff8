//! Sends webhooks over HTTP, all on one thread. No redirect, no proxy, and no address that the policy
//! forbids; of the response only the status and `Retry-After` count.

use super::connections::{HttpConnection, Origin, ReceiverConnections};
use super::error::{SendError, http_error};
use super::names::{PermittedAddresses, lookup_threads};
use crate::domain::address::AddressPolicy;
use crate::domain::id::{DeliveryId, UserId};
use crate::domain::webhook::WebhookUrl;
use crate::net::SystemNames;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Response, Uri};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout_at};

/// Bytes of a response that are read, so that the connection can be reused.
const RESPONSE_BYTES: usize = 64 * 1024;

/// A webhook request.
#[derive(Debug)]
pub struct WebhookRequest {
    /// Receiver.
    pub url: WebhookUrl,
    /// Whose it is.
    pub user: UserId,
    /// Value of `webhook-id`.
    pub id: DeliveryId,
    /// Value of `webhook-timestamp`, unix seconds.
    pub timestamp_s: u64,
    /// Value of `webhook-signature`.
    pub signature: String,
    /// JSON body.
    pub body: Bytes,
}

/// The relevant part of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After` as the receiver wrote it.
    pub retry_after: Option<String>,
}

type ReportEnd = dyn FnOnce(Result<WebhookResponse, SendError>) + Send;

/// Takes the outcome of an attempt. One that is dropped reports a fault of this server.
pub struct AttemptEnd(Option<Box<ReportEnd>>);

impl AttemptEnd {
    /// Calls `report` once.
    pub fn new(report: impl FnOnce(Result<WebhookResponse, SendError>) + Send + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    /// The attempt has ended.
    pub fn report(mut self, outcome: Result<WebhookResponse, SendError>) {
        if let Some(report) = self.0.take() {
            report(outcome);
        }
    }
}

impl Drop for AttemptEnd {
    fn drop(&mut self) {
        if let Some(report) = self.0.take() {
            report(Err(SendError::because("a fault of this server")));
        }
    }
}

/// Sends webhook requests.
pub trait WebhookSender: Send + Sync {
    /// Begins to send a request. `end` gets the response, or why there is none. Does not block.
    fn start(&self, request: WebhookRequest, end: AttemptEnd);
}

/// Sends over HTTP.
#[derive(Debug)]
pub struct HttpSender {
    client: Arc<WebhookClient>,
    /// There until it is dropped.
    runtime: Option<Runtime>,
}

impl HttpSender {
    /// A client that connects to permitted addresses only and gives up after `timeout`.
    pub fn new(policy: AddressPolicy, timeout: Duration) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(lookup_threads())
            .thread_name("webhook-io")
            .enable_all()
            .build()?;
        let connections = ReceiverConnections::new(PermittedAddresses::new(policy, Arc::new(SystemNames)))?;
        Ok(Self { client: Arc::new(WebhookClient { connections, timeout }), runtime: Some(runtime) })
    }
}

impl Drop for HttpSender {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A lookup may hang for long.
            runtime.shutdown_background();
        }
    }
}

impl WebhookSender for HttpSender {
    fn start(&self, request: WebhookRequest, end: AttemptEnd) {
        let client = Arc::clone(&self.client);
        if let Some(runtime) = &self.runtime {
            drop(runtime.spawn(async move { end.report(client.send(request).await) }));
        }
    }
}

#[derive(Debug)]
struct WebhookClient {
    connections: ReceiverConnections,
    timeout: Duration,
}

impl WebhookClient {
    async fn send(&self, request: WebhookRequest) -> Result<WebhookResponse, SendError> {
        let deadline = Instant::now() + self.timeout;
        let uri: Uri = request.url.reveal().parse().map_err(|_| unusable())?;
        let (origin, user) = (Origin::of(&uri), request.user);
        let head = self.head(user, &origin, into_http(request, &uri)?);
        let (connection, response) =
            timeout_at(deadline, head).await.map_err(|_| SendError::because("no answer in time"))??;
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|line| line.to_str().ok());
        let answer = WebhookResponse {
            status: response.status().as_u16(),
            retry_after: retry_after.map(str::to_owned),
        };
        // The status is the answer; a body that breaks off changes nothing.
        if timeout_at(deadline, is_read(response)).await.unwrap_or(false) {
            self.connections.keep(origin, connection);
        }
        Ok(answer)
    }

    /// Sends a request and reads the head of the response.
    async fn head(
        &self,
        user: UserId,
        origin: &Origin,
        request: Request<Full<Bytes>>,
    ) -> Result<(HttpConnection, Response<Incoming>), SendError> {
        // The receiver may have closed an idle connection.
        if let Some(mut connection) = self.connections.take_idle(origin)
            && let Ok(response) = connection.send(request.clone()).await
        {
            return Ok((connection, response));
        }
        let mut connection = self.connections.open(user, origin).await?;
        let response = connection.send(request).await.map_err(|error| http_error(&error))?;
        Ok((connection, response))
    }
}

fn unusable() -> SendError {
    SendError::because("the URL cannot be used")
}

fn into_http(request: WebhookRequest, uri: &Uri) -> Result<Request<Full<Bytes>>, SendError> {
    let host = uri.authority().map_or("", |authority| authority.as_str());
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    Request::post(target)
        .header(HOST, host)
        .header(USER_AGENT, concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
        .header(ACCEPT, "*/*")
        .header(ACCEPT_ENCODING, "identity")
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", request.id.to_string())
        .header("webhook-timestamp", request.timestamp_s.to_string())
        .header("webhook-signature", request.signature)
        .body(Full::new(request.body))
        .map_err(|_| unusable())
}

/// Reads a body; whether it ended within its limit.
async fn is_read(response: Response<Incoming>) -> bool {
    let (mut body, mut bytes) = (response.into_body(), 0_usize);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        bytes = bytes.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        if bytes > RESPONSE_BYTES {
            return false;
        }
    }
    true
}
