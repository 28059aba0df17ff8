//! Listening sockets: TCP or unix, bound here or handed over by the service manager.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

/// Mode of a unix socket: owner and group, so that a reverse proxy can connect.
const SOCKET_MODE: u32 = 0o660;
/// Connections that the kernel queues. After a restart all readers reconnect at once; one that finds the
/// queue full retries only after a second.
const BACKLOG: u32 = 4_096;

/// A bound address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// A TCP address; the port is the real one.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl std::fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A bound listener. Dropping it closes the socket and removes the socket file.
#[derive(Debug)]
pub struct HttpListener {
    pub(crate) socket: ListenerSocket,
    bound: BoundAddress,
    _file: Option<SocketFile>,
}

#[derive(Debug)]
pub(crate) enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl HttpListener {
    /// Listens on a TCP address; port 0 picks a free one. Call it within a runtime.
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let bound = BoundAddress::Tcp(listener.local_addr()?);
        Ok(Self { socket: ListenerSocket::Tcp(listener), bound, _file: None })
    }

    /// Listens on a unix socket. A stale socket file is replaced.
    pub fn unix(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
        let meta = std::fs::symlink_metadata(path)?;
        let file = SocketFile { path: path.to_owned(), inode: (meta.dev(), meta.ino()) };
        Ok(Self {
            socket: ListenerSocket::Unix(listener),
            bound: BoundAddress::Unix(path.to_owned()),
            _file: Some(file),
        })
    }

    /// Takes over a non-blocking TCP socket bound by the service manager. Call it within a runtime.
    pub fn handed_tcp(socket: std::net::TcpListener) -> io::Result<Self> {
        let bound = BoundAddress::Tcp(socket.local_addr()?);
        Ok(Self { socket: ListenerSocket::Tcp(TcpListener::from_std(socket)?), bound, _file: None })
    }

    /// Takes over a unix socket. Its file is not removed.
    pub fn handed_unix(socket: std::os::unix::net::UnixListener, path: PathBuf) -> io::Result<Self> {
        let socket = ListenerSocket::Unix(UnixListener::from_std(socket)?);
        Ok(Self { socket, bound: BoundAddress::Unix(path), _file: None })
    }

    /// The bound address.
    pub fn bound(&self) -> &BoundAddress {
        &self.bound
    }
}

fn remove_stale(path: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the file exists and is not a socket"));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers on this socket")),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        Err(error) => Err(error),
    }
}

/// The file of a unix socket. It is removed only if its inode is still ours.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket file stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
        let living = HttpListener::unix(&path).expect("replaces the stale file");
        assert_eq!(HttpListener::unix(&path).expect_err("in use").kind(), io::ErrorKind::AddrInUse);
        let mode = std::fs::metadata(&path).expect("exists").permissions().mode();
        assert_eq!(mode & 0o777, SOCKET_MODE);
        drop(living);
        assert!(!path.exists(), "the socket file goes with its listener");
    }

    #[tokio::test]
    async fn a_regular_file_at_the_socket_path_is_never_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("precious");
        std::fs::write(&path, "data").expect("writes");
        assert!(HttpListener::unix(&path).is_err());
        assert!(path.exists());
    }
}
