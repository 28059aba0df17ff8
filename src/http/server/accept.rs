//! Taking connections off a listener. Owns their socket options and the patience with a kernel that is out of
//! descriptors; refuses to know what is spoken on them.

use super::listener::{HttpListener, ListenerSocket};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};

/// A peer that acknowledges nothing for so long is dead, milliseconds.
const USER_TIMEOUT_MS: u32 = 30_000;
/// Silence after which the kernel asks whether the peer lives; finds dead readers of silent streams.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// How long to wait when the kernel has no descriptor or memory left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// A fresh connection.
pub(crate) enum IncomingConnection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The next connection. Errors of a single connection are passed over; exhaustion is waited out, because the listener
/// itself is well.
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
                tokio::time::sleep(EXHAUSTED).await;
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
