//! Accepts connections and sets their socket options.

use super::kernel_reserve::KernelReserve;
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

/// The next connection. Errors of a single connection are skipped; when the kernel's tables are full, it
/// makes room and waits.
pub(crate) async fn accept(listener: &HttpListener, reserve: &mut KernelReserve) -> IncomingConnection {
    accept_from(|| accept_once(listener), reserve).await
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
                if let Err(error) = tune(&incoming) {
                    tracing::debug!(%error, "socket options were refused");
                }
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

#[cfg(test)]
mod tests {
    use super::super::kernel_reserve::testing::CountedRelief;
    use super::*;
    use rustix::io::Errno;
    use std::sync::Arc;
    use std::sync::Mutex;

    #[tokio::test]
    async fn p8_a_connection_that_the_kernel_has_no_room_for_ends_the_largest_command() {
        let relief = Arc::new(CountedRelief::default());
        let mut reserve = KernelReserve::new(Arc::<CountedRelief>::clone(&relief));
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
}
