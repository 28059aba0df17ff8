//! Accounts and tokens: in the store itself, or through the server that has it open. Both use the JSON of
//! the HTTP API.

mod account_admin;
mod local;
mod password;
mod remote;
pub(crate) mod token;
pub(crate) mod user;

use crate::app::{self, AppError, STORE_FILE};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::config::Config;
use crate::ports::{Clock, NodeStore};
use crate::store::OpenError;
pub(crate) use account_admin::{AccountAdmin, text};
use local::LocalAdmin;
use remote::RemoteAdmin;
use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;

/// How to reach the store of a data directory.
pub(crate) enum StoreAccess {
    /// No server has it open.
    Local(Arc<dyn NodeStore>),
    /// The server that has it open.
    Remote(ApiClient),
}

pub(crate) fn open(config: &Config, clock: &Arc<dyn Clock>) -> Result<Box<dyn AccountAdmin>, CliError> {
    Ok(match access(config, clock)? {
        StoreAccess::Local(store) => {
            Box::new(LocalAdmin { store, clock: Arc::clone(clock), config: config.clone() })
        }
        StoreAccess::Remote(client) => Box::new(RemoteAdmin(client)),
    })
}

/// Opens the store, or connects to the server that has it open.
pub(crate) fn access(config: &Config, clock: &Arc<dyn Clock>) -> Result<StoreAccess, CliError> {
    if is_locked(&config.data_dir.join(STORE_FILE)) {
        return connect(config);
    }
    match app::open_store(config, clock) {
        Ok(store) => Ok(StoreAccess::Local(store)),
        // A server has started since the first check.
        Err(AppError::Store(OpenError::Locked { .. })) => connect(config),
        Err(error) => {
            let hint = "name the directory of the store with --data-dir; see also: nanoclaw doctor";
            Err(CliError::failed(error.to_string()).hint(error.advice().unwrap_or(hint)))
        }
    }
}

/// Whether a process has locked the file. Does not wait.
fn is_locked(store: &Path) -> bool {
    File::open(store).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The server that has the store of this directory open; `None` if there is none, or its control file is
/// missing.
pub(crate) fn running_server(data_dir: &Path) -> Result<Option<ApiClient>, CliError> {
    if !is_locked(&data_dir.join(STORE_FILE)) {
        return Ok(None);
    }
    app::read_control_file(data_dir).ok().flatten().map(|control| remote::connect(&control)).transpose()
}

/// The server that answers for this directory beside a database: its nodes lock no file.
pub(crate) fn answering_server(data_dir: &Path) -> Option<ApiClient> {
    remote::connect(&app::read_control_file(data_dir).ok().flatten()?).ok()
}

fn connect(config: &Config) -> Result<StoreAccess, CliError> {
    let dir = config.data_dir.display();
    let control = app::read_control_file(&config.data_dir).map_err(|error| {
        CliError::failed(format!(
            "a server has the store in '{dir}' open, and its control.json cannot be read: {error}"
        ))
        .hint("run this as the user of the server, or stop the server")
    })?;
    let control = control.ok_or_else(|| {
        CliError::failed(format!("a server has the store in '{dir}' open, and its control.json is missing"))
            .hint("it may be starting or stopping: try again in a moment, or stop it")
    })?;
    remote::connect(&control).map(StoreAccess::Remote)
}
