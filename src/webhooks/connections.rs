//! Connections to receivers: opens them to permitted addresses, and keeps a few for the next delivery.

use super::error::{SendError, http_error};
use super::names::PermittedAddresses;

use crate::domain::id::UserId;
use crate::net::client_tls;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

/// Timeout for the lookup, and for TCP and TLS together.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The least time for one address.
const MIN_SHARE: Duration = Duration::from_millis(250);
/// Maximum response head, bytes.
const HEADER_BYTES: usize = 16 * 1024;
/// Idle connections that are kept, one to a receiver.
const IDLE_CONNECTIONS: usize = 8;
/// Time after which an idle connection is not used again.
const IDLE_TIME: Duration = Duration::from_secs(15);

/// Scheme, host and port of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    is_tls: bool,
    /// An IPv6 address is without brackets.
    host: String,
    port: u16,
}

impl Origin {
    pub(super) fn of(uri: &Uri) -> Self {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_ascii_lowercase();
        Self { is_tls, host, port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }) }
    }
}

/// Opens and keeps connections.
#[derive(Debug)]
pub(super) struct ReceiverConnections {
    addresses: PermittedAddresses,
    tls: Arc<ClientConfig>,
    /// The oldest first.
    idle: Mutex<Vec<IdleConnection>>,
}

#[derive(Debug)]
struct IdleConnection {
    origin: Origin,
    connection: HttpConnection,
    since: Instant,
}

impl ReceiverConnections {
    pub(super) fn new(addresses: PermittedAddresses) -> io::Result<Self> {
        let tls = client_tls().map_err(io::Error::other)?;
        Ok(Self { addresses, tls, idle: Mutex::default() })
    }

    /// An idle connection to this receiver.
    pub(super) fn take_idle(&self, origin: &Origin) -> Option<HttpConnection> {
        let mut idle = self.lock();
        idle.retain(|kept| kept.since.elapsed() < IDLE_TIME && !kept.connection.requests.is_closed());
        let at = idle.iter().position(|kept| kept.origin == *origin)?;
        Some(idle.remove(at).connection)
    }

    /// Keeps a connection whose response has been read.
    pub(super) fn keep(&self, origin: Origin, connection: HttpConnection) {
        let mut idle = self.lock();
        idle.retain(|kept| kept.origin != origin);
        if idle.len() >= IDLE_CONNECTIONS {
            idle.remove(0);
        }
        idle.push(IdleConnection { origin, connection, since: Instant::now() });
    }

    /// Opens a connection for this user.
    pub(super) async fn open(&self, user: UserId, origin: &Origin) -> Result<HttpConnection, SendError> {
        let found = timeout(CONNECT_TIME, self.addresses.of(user, &origin.host, origin.port)).await;
        let addresses =
            found.map_err(|_| SendError::because("the receiver's name was not found in time"))??;
        let connected = timeout(CONNECT_TIME, self.connect(&addresses, origin)).await;
        let socket = connected.map_err(|_| SendError::because("no connection in time"))??;
        let handshake = Builder::new().max_buf_size(HEADER_BYTES).handshake(TokioIo::new(socket)).await;
        let (requests, driver) = handshake.map_err(|error| http_error(&error))?;
        let driver = tokio::spawn(async move {
            if let Err(error) = driver.await {
                tracing::debug!(%error, "connection to a webhook receiver failed");
            }
        });
        Ok(HttpConnection { requests, driver })
    }

    async fn connect(
        &self,
        addresses: &[SocketAddr],
        origin: &Origin,
    ) -> Result<Box<dyn ReceiverSocket>, SendError> {
        let socket = dial(addresses).await?;
        socket.set_nodelay(true).map_err(|error| SendError::because(&error))?;
        if !origin.is_tls {
            return Ok(Box::new(socket));
        }
        let unchecked = |_| SendError::because("TLS: the receiver's name cannot be checked");
        let name = ServerName::try_from(origin.host.clone()).map_err(unchecked)?;
        let secured = TlsConnector::from(Arc::clone(&self.tls)).connect(name, socket).await;
        Ok(Box::new(secured.map_err(|error| SendError::because(&format!("TLS: {error}")))?))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IdleConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects to the first address that answers.
async fn dial(addresses: &[SocketAddr]) -> Result<TcpStream, SendError> {
    let (began, mut failure) = (Instant::now(), SendError::because("no connection"));
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len().saturating_sub(tried)).unwrap_or(1).max(1);
        let share = (CONNECT_TIME.saturating_sub(began.elapsed()) / left).max(MIN_SHARE);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => return Ok(socket),
            Ok(Err(error)) => failure = SendError::because(&error),
            Err(_) => failure = SendError::because("no connection in time"),
        }
    }
    Err(failure)
}

/// A connection, with TLS or without.
trait ReceiverSocket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ReceiverSocket for S {}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(super) struct HttpConnection {
    requests: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl HttpConnection {
    pub(super) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.requests.send_request(request).await
    }
}

impl Drop for HttpConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
