//! One try on the wire. Owns the HTTP client and the words for what went wrong; refuses redirects, proxies, addresses that
//! the policy does not permit, and whatever the receiver says beyond its status.

use super::resolver::GuardedResolver;
use crate::domain::address::AddressPolicy;
use crate::domain::id::DeliveryId;
use crate::domain::webhook::WebhookUrl;
use std::io::{Read, copy, sink};
use std::net::IpAddr;
use std::time::Duration;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, RustlsConnector, TcpConnector};
use ureq::{Agent, Timeout};

/// Longest time until there is a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// What is read of an answer, bytes: so that its connection can be used again.
const ANSWER_BYTES: u64 = 64 * 1024;
/// The longest head of an answer, bytes.
const HEADER_BYTES: usize = 16 * 1024;
/// Idle connections kept for the next delivery.
const IDLE_CONNECTIONS: usize = 8;
/// The longest reason that is kept, characters.
const REASON_CHARS: usize = 200;

/// What is sent.
#[derive(Debug)]
pub struct Parcel<'a> {
    /// Where to.
    pub url: &'a WebhookUrl,
    /// `webhook-id`.
    pub id: DeliveryId,
    /// `webhook-timestamp`, unix seconds.
    pub timestamp_s: u64,
    /// `webhook-signature`.
    pub signature: String,
    /// JSON.
    pub body: &'a [u8],
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's.
    pub status: u16,
    /// As the receiver wrote it.
    pub retry_after: Option<String>,
}

/// Why nothing came back, in words that hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The receiver's address is somebody's own.
    #[error("{0} is not a public address; if it is yours, add it to webhooks.allow_private_addresses")]
    Refused(IpAddr),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// The seam to the network.
pub trait Post: Send + Sync {
    /// Sends, and waits for the answer or for the end of patience.
    fn post(&self, parcel: &Parcel<'_>) -> Result<Answer, PostError>;
}

/// The network.
#[derive(Debug)]
pub struct HttpPost(Agent);

impl HttpPost {
    /// A client that goes where the policy permits and gives up after `timeout`.
    pub fn new(policy: AddressPolicy, timeout: Duration) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // A redirect could lead to an address that nobody has checked.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("nanoclaw/", env!("CARGO_PKG_VERSION")))
            .accept_encoding("identity")
            .timeout_resolve(Some(CONNECT_TIME))
            .timeout_connect(Some(CONNECT_TIME))
            .timeout_global(Some(timeout))
            .max_response_header_size(HEADER_BYTES)
            .max_idle_connections(IDLE_CONNECTIONS)
            .max_idle_connections_per_host(1)
            .build();
        let connector = TcpConnector::default().chain(RustlsConnector::default());
        Self(Agent::with_parts(
            config,
            connector,
            GuardedResolver { policy, names: DefaultResolver::default() },
        ))
    }
}

impl Post for HttpPost {
    fn post(&self, parcel: &Parcel<'_>) -> Result<Answer, PostError> {
        let request = self
            .0
            .post(parcel.url.reveal())
            .content_type("application/json")
            .header("webhook-id", parcel.id.to_string())
            .header("webhook-timestamp", parcel.timestamp_s.to_string())
            .header("webhook-signature", &parcel.signature);
        let response = request.send(parcel.body).map_err(failure)?;
        let retry_after = response.headers().get("retry-after").and_then(|line| line.to_str().ok());
        let answer =
            Answer { status: response.status().as_u16(), retry_after: retry_after.map(str::to_owned) };
        // The status is the answer; a body that breaks off changes nothing.
        drop(copy(&mut response.into_body().into_reader().take(ANSWER_BYTES), &mut sink()));
        Ok(answer)
    }
}

/// What went wrong, without the URL: it may hold a token.
fn failure(error: ureq::Error) -> PostError {
    use ureq::Error::{
        BadUri, ConnectionFailed, HostNotFound, Http, Io, Other, Rustls, Timeout as TimedOut, Tls,
    };
    let words = match error {
        Other(inner) => match inner.downcast::<PostError>() {
            Ok(own) => return *own,
            Err(_) => "the request failed".to_owned(),
        },
        TimedOut(Timeout::Resolve) => "the receiver's name was not found in time".to_owned(),
        TimedOut(Timeout::Connect) => "no connection in time".to_owned(),
        TimedOut(_) => "no answer in time".to_owned(),
        HostNotFound => "the receiver's name is not known".to_owned(),
        ConnectionFailed => "no connection".to_owned(),
        Io(error) => error.to_string(),
        Rustls(error) => format!("TLS: {error}"),
        Tls(reason) => format!("TLS: {reason}"),
        BadUri(_) | Http(_) => "the URL cannot be used".to_owned(),
        _ => "the receiver does not speak HTTP as it should".to_owned(),
    };
    PostError::Failed(words.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect())
}
