//! Socket activation: takes over the socket that the service manager holds, so that connections wait during
//! a restart. The rules of `listen:` apply (P9).

use crate::config::Listen;
use crate::domain::account::AuthMode;
use listenfd::ListenFd;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The rule of `code_execution.shell_network`.
const NETWORKED_COMMANDS: &str = "with code_execution.shell_network and auth_mode: single a command could call this server and \
                                  approve its own tool calls; set auth_mode: multi, or hand over a unix socket";

#[derive(Debug)]
pub(super) enum InheritedSocket {
    Tcp(TcpListener),
    /// The service manager removes the socket file.
    Unix(UnixListener, PathBuf),
}

/// Why the socket cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SocketActivationError {
    /// The variables or the descriptors cannot be read.
    #[error("cannot take over the socket that the service manager holds: {0}")]
    Unreadable(io::Error),
    /// More than one socket.
    #[error(
        "the service manager hands over {count} sockets, and one is served: leave one ListenStream= in the unit"
    )]
    TooMany {
        /// How many.
        count: usize,
    },
    /// A datagram socket, a connection, or no socket at all.
    #[error(
        "what the service manager hands over is no listening stream socket: use ListenStream= with Accept=no"
    )]
    NoListener,
    /// An address that untrusted clients reach.
    #[error("the service manager listens on {address}, where this server must not: {reason}")]
    Public {
        /// The address.
        address: SocketAddr,
        /// The rule.
        reason: &'static str,
    },
    /// An abstract name instead of a file: it has neither owner nor mode.
    #[error(
        "the service manager listens on a unix socket without a path, which everybody may open: give it a path"
    )]
    Nameless,
}

/// Takes the socket, if there is one for this process. Must run before threads and children exist: it keeps
/// the descriptor from children and removes its variables. `commands_online`: commands may use the network.
pub(super) fn take(
    mode: AuthMode,
    commands_online: bool,
) -> Result<Option<InheritedSocket>, SocketActivationError> {
    // Checks LISTEN_PID and closes the descriptors on exec.
    let count = sd_notify::listen_fds().map_err(SocketActivationError::Unreadable)?.len();
    let mut inherited = if count == 0 { ListenFd::empty() } else { ListenFd::from_env() };
    match count {
        0 => return Ok(None),
        1 => {}
        count => return Err(SocketActivationError::TooMany { count }),
    }
    if let Ok(Some(tcp)) = inherited.take_tcp_listener(0) {
        return admit_tcp(tcp, mode, commands_online).map(Some);
    }
    match inherited.take_unix_listener(0) {
        Ok(Some(unix)) => admit_unix(unix).map(Some),
        Ok(None) | Err(_) => Err(SocketActivationError::NoListener),
    }
}

fn admit_tcp(
    tcp: TcpListener,
    mode: AuthMode,
    commands_online: bool,
) -> Result<InheritedSocket, SocketActivationError> {
    check_listens(&tcp)?;
    let address = tcp.local_addr().map_err(SocketActivationError::Unreadable)?;
    Listen::admit(address, mode).map_err(|reason| SocketActivationError::Public { address, reason })?;
    if commands_online && mode == AuthMode::Single {
        return Err(SocketActivationError::Public { address, reason: NETWORKED_COMMANDS });
    }
    tcp.set_nonblocking(true).map_err(SocketActivationError::Unreadable)?;
    Ok(InheritedSocket::Tcp(tcp))
}

fn admit_unix(unix: UnixListener) -> Result<InheritedSocket, SocketActivationError> {
    check_listens(&unix)?;
    let address = unix.local_addr().map_err(SocketActivationError::Unreadable)?;
    let path = address.as_pathname().map(Path::to_owned).ok_or(SocketActivationError::Nameless)?;
    unix.set_nonblocking(true).map_err(SocketActivationError::Unreadable)?;
    Ok(InheritedSocket::Unix(unix, path))
}

fn check_listens(socket: &impl AsFd) -> Result<(), SocketActivationError> {
    match rustix::net::sockopt::socket_acceptconn(socket) {
        Ok(true) => Ok(()),
        Ok(false) => Err(SocketActivationError::NoListener),
        Err(error) => Err(SocketActivationError::Unreadable(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;

    #[test]
    fn p9_an_inherited_public_socket_needs_multi_mode() {
        let public = || TcpListener::bind("0.0.0.0:0").expect("binds");
        let refused = admit_tcp(public(), AuthMode::Single, false).expect_err("strangers reach it");
        assert!(refused.to_string().contains("auth_mode: multi"), "{refused}");
        assert!(matches!(admit_tcp(public(), AuthMode::Multi, true), Ok(InheritedSocket::Tcp(_))));
        let loopback = || TcpListener::bind("127.0.0.1:0").expect("binds");
        assert!(matches!(admit_tcp(loopback(), AuthMode::Single, false), Ok(InheritedSocket::Tcp(_))));
        let refused = admit_tcp(loopback(), AuthMode::Single, true).expect_err("commands reach it");
        assert!(refused.to_string().contains("approve its own tool calls"), "{refused}");
    }

    #[test]
    fn p9_an_inherited_unix_socket_needs_a_path() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).expect("binds");
        assert!(matches!(admit_unix(listener), Ok(InheritedSocket::Unix(_, found)) if found == path));
        let name = format!("nanoclaw-test-{}", std::process::id());
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
        let open = UnixListener::bind_addr(&name).expect("binds");
        assert!(matches!(admit_unix(open), Err(SocketActivationError::Nameless)));
    }
    #[test]
    fn without_a_service_manager_no_socket_is_inherited() {
        assert!(take(AuthMode::Single, false).expect("nothing to fail").is_none());
    }
}
