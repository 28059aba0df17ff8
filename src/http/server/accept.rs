//! Accepts connections and sets their socket options.

use super::listener::{HttpListener, ListenerSocket};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// A peer that acknowledges nothing for this long is dead, milliseconds.
const USER_TIMEOUT_MS: u32 = 30_000;
/// TCP keep-alive: finds dead readers of silent streams.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Pause when the kernel has no descriptor or memory left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);

pub(crate) enum IncomingConnection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The next connection. Errors of a single connection are skipped; when descriptors run out, it waits.
pub(crate) async fn accept(listener: &HttpListener) -> IncomingConnection {
    loop {
        let accepted = match &listener.socket {
            ListenerSocket::Tcp(tcp) => tcp.accept().await.map(|(stream, _)| IncomingConnection::Tcp(stream)),
            ListenerSocket::Unix(unix) => {
                unix.accept().await.map(|(stream, _)| IncomingConnection::Unix(stream))
            }
        };
        match accepted {
            Ok(incoming) => {
                if let Err(error) = tune(&incoming) {
                    tracing::debug!(%error, "socket options were refused");
                }
                return incoming;
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection, trying again");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn tune(incoming: &IncomingConnection) -> io::Result<()> {
    use rustix::net::sockopt;
    let IncomingConnection::Tcp(tcp) = incoming else { return Ok(()) };
    tcp.set_nodelay(true)?;
    let socket = tcp.as_fd();
    sockopt::set_tcp_user_timeout(socket, USER_TIMEOUT_MS)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(())
}
