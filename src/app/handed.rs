//! A socket that the service manager holds (socket activation): connections wait in it while no server runs, so that a
//! restart refuses none. Owns taking it over, at the very start of the process; refuses what `listen:` would be refused (P9).

use crate::config::Listen;
use crate::domain::account::AuthMode;
use listenfd::ListenFd;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// What was handed over.
#[derive(Debug)]
pub(super) enum Handed {
    /// A TCP port.
    Tcp(TcpListener),
    /// A socket file, which is the manager's to remove.
    Unix(UnixListener, PathBuf),
}

/// What cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum HandedError {
    /// The variables or the descriptors.
    #[error("cannot take over the socket that the service manager holds: {0}")]
    Unreadable(io::Error),
    /// Each would need a server of its own.
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
    /// An address that strangers reach.
    #[error("the service manager listens on {address}, where this server must not: {reason}")]
    Public {
        /// The address.
        address: SocketAddr,
        /// The rule.
        reason: &'static str,
    },
    /// A name instead of a file: it has no owner and no mode.
    #[error(
        "the service manager listens on a unix socket without a path, which everybody may open: give it a path"
    )]
    Nameless,
}

/// Takes the socket over, if there is one for this process. Its descriptor does not go to any child, and the variables that
/// tell of it are gone afterwards. To be called before threads and children are.
pub(super) fn take(mode: AuthMode) -> Result<Option<Handed>, HandedError> {
    // Checks LISTEN_PID, which must be this process, and keeps all descriptors from children.
    let count = sd_notify::listen_fds().map_err(HandedError::Unreadable)?.len();
    let mut handed = if count == 0 { ListenFd::empty() } else { ListenFd::from_env() };
    match count {
        0 => return Ok(None),
        1 => {}
        count => return Err(HandedError::TooMany { count }),
    }
    if let Ok(Some(tcp)) = handed.take_tcp_listener(0) {
        return admit_tcp(tcp, mode).map(Some);
    }
    match handed.take_unix_listener(0) {
        Ok(Some(unix)) => admit_unix(unix).map(Some),
        Ok(None) | Err(_) => Err(HandedError::NoListener),
    }
}

fn admit_tcp(tcp: TcpListener, mode: AuthMode) -> Result<Handed, HandedError> {
    check_listens(&tcp)?;
    let address = tcp.local_addr().map_err(HandedError::Unreadable)?;
    Listen::admit(address, mode).map_err(|reason| HandedError::Public { address, reason })?;
    tcp.set_nonblocking(true).map_err(HandedError::Unreadable)?;
    Ok(Handed::Tcp(tcp))
}

fn admit_unix(unix: UnixListener) -> Result<Handed, HandedError> {
    check_listens(&unix)?;
    let address = unix.local_addr().map_err(HandedError::Unreadable)?;
    let path = address.as_pathname().map(Path::to_owned).ok_or(HandedError::Nameless)?;
    unix.set_nonblocking(true).map_err(HandedError::Unreadable)?;
    Ok(Handed::Unix(unix, path))
}

fn check_listens(socket: &impl AsFd) -> Result<(), HandedError> {
    match rustix::net::sockopt::socket_acceptconn(socket) {
        Ok(true) => Ok(()),
        Ok(false) => Err(HandedError::NoListener),
        Err(error) => Err(HandedError::Unreadable(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;

    #[test]
    fn p9_a_public_socket_needs_accounts_wherever_it_comes_from() {
        let public = || TcpListener::bind("0.0.0.0:0").expect("binds");
        let refused = admit_tcp(public(), AuthMode::Single).expect_err("strangers reach it");
        assert!(refused.to_string().contains("auth_mode: multi"), "{refused}");
        assert!(matches!(admit_tcp(public(), AuthMode::Multi), Ok(Handed::Tcp(_))));
        let loopback = TcpListener::bind("127.0.0.1:0").expect("binds");
        assert!(matches!(admit_tcp(loopback, AuthMode::Single), Ok(Handed::Tcp(_))));
    }

    #[test]
    fn p9_a_unix_socket_has_a_file_whose_mode_says_who_may_come() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let kept = UnixListener::bind(&path).expect("binds");
        assert!(matches!(admit_unix(kept), Ok(Handed::Unix(_, found)) if found == path));
        let name = format!("nanoclaw-test-{}", std::process::id());
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name).expect("a name");
        let open = UnixListener::bind_addr(&name).expect("binds");
        assert!(matches!(admit_unix(open), Err(HandedError::Nameless)));
    }

    #[test]
    fn without_a_manager_nothing_is_taken() {
        assert!(take(AuthMode::Single).expect("nothing to fail").is_none());
    }
}
