//! Accepts connections and sets their socket options.

use super::kernel_reserve::KernelReserve;
use super::listener::{HttpListener, ListenerSocket};
use crate::http::request::peer::Peer;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// A peer that acknowledges nothing for this long is dead.
const DEAD_AFTER: Duration = Duration::from_secs(30);
/// TCP keep-alive: finds dead readers of silent streams.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Pause when the kernel has no descriptor or memory left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

pub(crate) enum IncomingConnection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl IncomingConnection {
    /// A connection that has broken off has no peer address and sends no request.
    pub(crate) fn peer(&self) -> Peer {
        match self {
            Self::Tcp(tcp) => Peer(tcp.peer_addr().ok().map(|address| address.ip())),
            Self::Unix(_) => Peer(None),
        }
    }
}

/// The next connection, whose client may read nothing for `stall_limit`. Errors of a single connection are
/// skipped; when the kernel's tables are full, it makes room and waits.
pub(crate) async fn accept(
    listener: &HttpListener,
    reserve: &mut KernelReserve,
    stall_limit: Duration,
) -> IncomingConnection {
    let incoming = accept_from(|| accept_once(listener), reserve).await;
    if let IncomingConnection::Tcp(tcp) = &incoming
        && let Err(error) = tune(tcp, stall_limit)
    {
        tracing::debug!(%error, "socket options were refused");
    }
    incoming
}

async fn accept_once(listener: &HttpListener) -> io::Result<IncomingConnection> {
    match &listener.socket {
        ListenerSocket::Tcp(tcp) => tcp.accept().await.map(|(stream, _)| IncomingConnection::Tcp(stream)),
        ListenerSocket::Unix(unix) => unix.accept().await.map(|(stream, _)| IncomingConnection::Unix(stream)),
    }
}

async fn accept_from<F: Future<Output = io::Result<IncomingConnection>>>(
    accept_once: impl Fn() -> F,
    reserve: &mut KernelReserve,
) -> IncomingConnection {
    loop {
        match accept_once().await {
            Ok(incoming) => {
                reserve.refill();
                return incoming;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection, trying again");
                reserve.relieve(&error);
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn tune(tcp: &TcpStream, stall_limit: Duration) -> io::Result<()> {
    use rustix::net::sockopt;
    tcp.set_nodelay(true)?;
    let socket = tcp.as_fd();
    // The kernel takes a client that reads nothing for a dead one (Linux 5.11, tcp_probe_timer).
    let user_timeout = DEAD_AFTER.max(stall_limit).as_millis();
    sockopt::set_tcp_user_timeout(socket, u32::try_from(user_timeout).unwrap_or(u32::MAX))?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::connection_table::ConnectionTable;
    use super::super::kernel_reserve::testing::CountedRelief;
    use super::*;
    use rustix::io::Errno;
    use std::sync::Arc;
    use std::sync::Mutex;

    #[tokio::test]
    async fn p8_a_connection_that_the_kernel_has_no_room_for_ends_the_largest_command() {
        let relief = Arc::new(CountedRelief::default());
        let mut reserve = KernelReserve::new(Arc::<CountedRelief>::clone(&relief), ConnectionTable::new(1));
        let errors = Mutex::new(vec![Errno::NOSPC, Errno::CONNABORTED]);
        let socket = || UnixStream::pair().map(|(one, _)| IncomingConnection::Unix(one));
        let next = || {
            std::future::ready(match errors.lock().expect("the errors").pop() {
                Some(error) => Err(error.into()),
                None => socket(),
            })
        };
        assert!(matches!(accept_from(next, &mut reserve).await, IncomingConnection::Unix(_)));
        relief.wait_for(1).await;
    }

    #[tokio::test]
    async fn the_kernel_waits_for_a_client_that_reads_nothing_as_long_as_the_server() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a listener");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a client");
        for (stall_limit_s, expected_ms) in [(1, 30_000), (3_600, 3_600_000)] {
            tune(&client, Duration::from_secs(stall_limit_s)).expect("the options");
            assert_eq!(rustix::net::sockopt::tcp_user_timeout(&client), Ok(expected_ms));
        }
    }
}
