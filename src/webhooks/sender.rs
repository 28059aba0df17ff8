//! Sends one webhook over HTTP. No redirect, no proxy, and no address that the policy forbids; of the
//! response only the status and `Retry-After` count.

use crate::domain::address::AddressPolicy;
use crate::domain::id::DeliveryId;
use crate::domain::webhook::WebhookUrl;
use crate::net::{client_config, is_own_address};
use std::io::{Read, copy, sink};
use std::net::IpAddr;
use std::time::Duration;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Connector, NextTimeout, RustlsConnector, TcpConnector};
use ureq::{Agent, Timeout};

/// Timeout for the lookup and for the connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Bytes of a response that are read, so that the connection can be reused.
const RESPONSE_BYTES: u64 = 64 * 1024;
/// Maximum response head, bytes.
const HEADER_BYTES: usize = 16 * 1024;
/// Idle connections that are kept.
const IDLE_CONNECTIONS: usize = 8;
/// Maximum length of a stored error, characters.
const REASON_CHARS: usize = 200;

/// A webhook request.
#[derive(Debug)]
pub struct WebhookRequest<'a> {
    /// Receiver.
    pub url: &'a WebhookUrl,
    /// Value of `webhook-id`.
    pub id: DeliveryId,
    /// Value of `webhook-timestamp`, unix seconds.
    pub timestamp_s: u64,
    /// Value of `webhook-signature`.
    pub signature: String,
    /// JSON body.
    pub body: &'a [u8],
}

/// The relevant part of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After` as the receiver wrote it.
    pub retry_after: Option<String>,
}

/// Why there is no response, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The receiver's address is not public.
    #[error(
        "the receiver is not on the public internet; if it is yours, the operator can open it with \
         webhooks.allow_private_addresses"
    )]
    Refused,
    /// Any other failure.
    #[error("{0}")]
    Failed(String),
}

/// Sends webhook requests.
pub trait WebhookSender: Send + Sync {
    /// Sends a request and waits for the response or the timeout.
    fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError>;
}

/// Sends over HTTP.
#[derive(Debug)]
pub struct HttpSender(Agent);

impl HttpSender {
    /// A client that connects to permitted addresses only and gives up after `timeout`.
    pub fn new(policy: AddressPolicy, timeout: Duration) -> Self {
        let config = client_config()
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

impl WebhookSender for HttpSender {
    fn send(&self, request: &WebhookRequest<'_>) -> Result<WebhookResponse, SendError> {
        let call = self
            .0
            .post(request.url.reveal())
            .content_type("application/json")
            .header("webhook-id", request.id.to_string())
            .header("webhook-timestamp", request.timestamp_s.to_string())
            .header("webhook-signature", &request.signature);
        let response = call.send(request.body).map_err(send_error)?;
        let retry_after = response.headers().get("retry-after").and_then(|line| line.to_str().ok());
        let answer = WebhookResponse {
            status: response.status().as_u16(),
            retry_after: retry_after.map(str::to_owned),
        };
        // The status is the answer; a body that breaks off changes nothing.
        drop(copy(&mut response.into_body().into_reader().take(RESPONSE_BYTES), &mut sink()));
        Ok(answer)
    }
}

/// Describes an error without the URL, which may hold a token.
fn send_error(error: ureq::Error) -> SendError {
    use ureq::Error::{
        BadUri, ConnectionFailed, HostNotFound, Http, Io, Other, Rustls, Timeout as TimedOut, Tls,
    };
    let text = match error {
        Other(inner) => match inner.downcast::<SendError>() {
            Ok(refusal) => return *refusal,
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
    SendError::Failed(text.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect())
}

/// Resolves names and drops forbidden addresses. The connection uses the checked addresses themselves, so DNS
/// rebinding gains nothing.
#[derive(Debug)]
struct GuardedResolver {
    policy: AddressPolicy,
    names: DefaultResolver,
}

impl Resolver for GuardedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let resolved = self.names.resolve(uri, config, timeout)?;
        let mut permitted = self.empty();
        let is_permitted = |ip: IpAddr| self.policy.permits_peer(ip, is_own_address(ip));
        for address in resolved.iter().filter(|address| is_permitted(address.ip())) {
            permitted.push(*address);
        }
        if permitted.is_empty() && !resolved.is_empty() {
            return Err(ureq::Error::Other(Box::new(SendError::Refused)));
        }
        Ok(permitted)
    }
}
