//! The way in for the command line beside a running server: a file in the data directory with the server's address and a key
//! that is fresh at each start. Owns the file, readable by its owner alone, for as long as the server runs.

use crate::domain::secret::Secret;
use crate::http::BoundAddress;
use crate::store::AtomicFile;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The file inside the data directory.
const NAME: &str = "control.json";

/// Where the server that runs over a data directory is reached, and with what.
#[derive(Debug, Deserialize)]
pub struct Control {
    /// `http://…`, or `unix:…` for a socket.
    pub address: String,
    /// What it lets in as an administrator.
    pub key: Secret,
}

#[derive(Serialize)]
struct Written<'a> {
    address: &'a str,
    key: &'a str,
}

/// The file, which goes with its server.
pub(super) struct ControlFile(PathBuf);

impl ControlFile {
    /// Writes it; one that a killed server left is replaced.
    pub(super) fn write(dir: &Path, bound: &BoundAddress, key: &Secret) -> io::Result<Self> {
        let path = dir.join(NAME);
        let draft = AtomicFile::begin(&path)?;
        let text = serde_json::to_string(&Written { address: &address(bound), key: key.reveal() })?;
        writeln!(draft.file(), "{text}")?;
        draft.finish()?;
        Ok(Self(path))
    }
}

impl Drop for ControlFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, "the file with the way in for the command line stays; its key is worth nothing");
        }
    }
}

/// What the server that holds this directory has written; `None` when it has not.
pub fn control_in(dir: &Path) -> io::Result<Option<Control>> {
    match std::fs::read(dir.join(NAME)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// As it is reached from this machine.
fn address(bound: &BoundAddress) -> String {
    let BoundAddress::Tcp(address) = bound else { return bound.to_string() };
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    BoundAddress::Tcp(SocketAddr::new(ip, address.port())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn p9_the_file_is_its_owners_and_goes_with_the_server() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(control_in(dir.path()).expect("reads").is_none());
        let bound = BoundAddress::Tcp("0.0.0.0:8787".parse().expect("an address"));
        std::fs::write(dir.path().join(NAME), "left by a killed one").expect("writes");
        let file =
            ControlFile::write(dir.path(), &bound, &Secret::from("nckc_x".to_owned())).expect("written");
        let mode = std::fs::metadata(dir.path().join(NAME)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let found = control_in(dir.path()).expect("reads").expect("there");
        assert_eq!((found.address.as_str(), found.key.reveal()), ("http://127.0.0.1:8787", "nckc_x"));
        drop(file);
        assert!(control_in(dir.path()).expect("reads").is_none());
    }
}
