//! control.json in the data directory: the address of the running server and a key, new at each start, for
//! the command line. The file exists as long as the server runs and only its owner can read it.

use crate::domain::secret::Secret;
use crate::http::BoundAddress;
use crate::store::AtomicFile;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

const NAME: &str = "control.json";

/// Address and key of the server that runs with a data directory.
#[derive(Debug, Deserialize)]
pub struct ControlAddress {
    /// `http://…`, or `unix:…` for a socket.
    pub address: String,
    /// Grants the rights of an administrator.
    pub key: Secret,
}

#[derive(Serialize)]
struct ControlRecord<'a> {
    address: &'a str,
    key: &'a str,
}

/// Removes the file when dropped.
pub(super) struct ControlFile(PathBuf);

impl ControlFile {
    /// Writes the file, over one that a killed server left. Nobody needs it after a power loss, because the
    /// server is gone then, too.
    pub(super) fn write(dir: &Path, bound: &BoundAddress, key: &Secret) -> io::Result<Self> {
        let path = dir.join(NAME);
        let draft = AtomicFile::begin(&path)?;
        let text = serde_json::to_string(&ControlRecord { address: &address(bound), key: key.reveal() })?;
        writeln!(draft.file(), "{text}")?;
        draft.finish_unsynced()?;
        Ok(Self(path))
    }
}

impl Drop for ControlFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, "cannot remove control.json; its key is no longer valid");
        }
    }
}

/// Reads the file; `None` if there is none, or if a power loss has emptied it.
pub fn read_control_file(dir: &Path) -> io::Result<Option<ControlAddress>> {
    match std::fs::read(dir.join(NAME)) {
        Ok(text) if text.iter().all(|byte| *byte == 0) => Ok(None),
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The address as this machine reaches it.
pub(super) fn address(bound: &BoundAddress) -> String {
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
    fn a_control_file_that_a_power_loss_has_emptied_names_no_server() {
        let dir = tempfile::tempdir().expect("a directory");
        for left in [&b""[..], &[0; 90]] {
            std::fs::write(dir.path().join(NAME), left).expect("written");
            assert!(read_control_file(dir.path()).expect("reads").is_none());
        }
        std::fs::write(dir.path().join(NAME), "{").expect("written");
        assert!(read_control_file(dir.path()).is_err());
    }

    #[test]
    fn p9_the_control_file_is_owner_only_and_is_removed_at_shutdown() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(read_control_file(dir.path()).expect("reads").is_none());
        let bound = BoundAddress::Tcp("0.0.0.0:8787".parse().expect("an address"));
        std::fs::write(dir.path().join(NAME), "left by a killed one").expect("writes");
        let file =
            ControlFile::write(dir.path(), &bound, &Secret::from("nckc_x".to_owned())).expect("written");
        let mode = std::fs::metadata(dir.path().join(NAME)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let control = read_control_file(dir.path()).expect("reads").expect("there");
        assert_eq!((control.address.as_str(), control.key.reveal()), ("http://127.0.0.1:8787", "nckc_x"));
        drop(file);
        assert!(read_control_file(dir.path()).expect("reads").is_none());
    }
}
