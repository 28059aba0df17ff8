//! The store that a command speaks to: a server, a file, or a database. The file of a directory belongs to
//! the server that has it open.

use super::client::ApiClient;
use super::error::CliError;
use super::local_server::server_of;
use crate::app::STORE_FILE;
use crate::config::Config;
use crate::store::{FileProbe, StoreLocation, probe_file};
use std::path::PathBuf;

/// The store of a command.
pub(super) enum StoreTarget {
    /// A server has it.
    Server(ApiClient),
    /// The command opens it itself.
    Store(LocatedStore),
}

/// A store that a command opens itself.
pub(super) struct LocatedStore {
    pub(super) location: StoreLocation,
    /// The directory with the key that signs logs.
    pub(super) data_dir: PathBuf,
    /// The directory with the contents of files: the one that nodes share, or the data directory.
    pub(super) files_dir: Option<PathBuf>,
}

impl StoreTarget {
    /// The configuration with which this program opens the store.
    pub(super) fn configure(&self, config: Config) -> Result<Config, CliError> {
        match self {
            Self::Server(_) => Ok(config),
            Self::Store(store) => store.configure(config),
        }
    }
}

impl LocatedStore {
    /// The file in a data directory.
    pub(super) fn in_directory(dir: PathBuf) -> Self {
        let location = StoreLocation::File(dir.join(STORE_FILE));
        Self { location, files_dir: Some(dir.clone()), data_dir: dir }
    }

    /// The store of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        match &config.store.url {
            None => Self::in_directory(config.data_dir.clone()),
            Some(url) => Self {
                location: StoreLocation::Database(url.clone()),
                data_dir: config.data_dir.clone(),
                files_dir: config.store.shared_dir.clone(),
            },
        }
    }

    fn configure(&self, config: Config) -> Result<Config, CliError> {
        match &self.location {
            StoreLocation::File(file) if config.store.url.is_some() => {
                if self.is_seen() {
                    return Ok(config.kept_in(&self.data_dir));
                }
                let file = file.display();
                let message =
                    format!("there is no store at '{file}', and the configuration names a database");
                Err(CliError::failed(message).hint("for the database of store.url leave --data-dir out"))
            }
            StoreLocation::File(_) | StoreLocation::Database(_) => Ok(config),
        }
    }

    /// The server that has the file open, or the store itself. A database serves all comers.
    pub(super) fn held(self) -> Result<StoreTarget, CliError> {
        let holder = match self.location {
            StoreLocation::File(_) => server_of(&self.data_dir)?,
            StoreLocation::Database(_) => None,
        };
        Ok(holder.map_or_else(|| StoreTarget::Store(self), StoreTarget::Server))
    }

    /// Whether this user sees a file where the store should be.
    pub(super) fn is_seen(&self) -> bool {
        match &self.location {
            StoreLocation::Database(_) => true,
            StoreLocation::File(file) => !matches!(probe_file(file), Ok(FileProbe::Absent) | Err(_)),
        }
    }
}
