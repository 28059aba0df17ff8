//! Accounts and tokens: in the store itself, or through the server that has it open. Both use the JSON of
//! the HTTP API.

mod account_admin;
mod local;
mod password;
mod remote;
pub(crate) mod token;
pub(crate) mod user;

use crate::app::{self, AppError};
use crate::cli::client::ApiClient;
use crate::cli::error::CliError;
use crate::cli::local_server::server_of;
use crate::cli::store_target::StoreTarget;
use crate::config::Config;
use crate::ports::{Clock, NodeStore};
use crate::store::OpenError;
pub(crate) use account_admin::{AccountAdmin, text};
use local::LocalAdmin;
use remote::RemoteAdmin;
use std::sync::Arc;

/// An opened store, or the server that has it open.
pub(crate) enum StoreAccess {
    Local(Arc<dyn NodeStore>),
    Remote(ApiClient),
}

pub(crate) fn open(
    target: &StoreTarget,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<Box<dyn AccountAdmin>, CliError> {
    Ok(match access(target, config, clock)? {
        StoreAccess::Local(store) => {
            Box::new(LocalAdmin { store, clock: Arc::clone(clock), config: config.clone() })
        }
        StoreAccess::Remote(client) => Box::new(RemoteAdmin(client)),
    })
}

/// Opens the store, or returns the server that has it open. `config` comes from [`StoreTarget::configure`].
pub(crate) fn access(
    target: &StoreTarget,
    config: &Config,
    clock: &Arc<dyn Clock>,
) -> Result<StoreAccess, CliError> {
    if let StoreTarget::Server(client) = target {
        return Ok(StoreAccess::Remote(client.clone()));
    }
    let failed = |error: &AppError| {
        let hint = "name the directory of the store with --data-dir; see also: nanoclaw doctor";
        CliError::failed(error.to_string()).hint(error.advice().unwrap_or(hint))
    };
    match app::open_store(config, clock) {
        Ok(store) => Ok(StoreAccess::Local(store)),
        // A server has started since the target was resolved.
        Err(error @ AppError::Store(OpenError::Locked { .. })) => {
            server_of(&config.data_dir)?.map(StoreAccess::Remote).ok_or_else(|| failed(&error))
        }
        Err(error) => Err(failed(&error)),
    }
}
