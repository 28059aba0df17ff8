//! The data directory and the store in it.

use super::error::AppError;
use super::process;
use super::shared_dir::SharedDir;
use crate::config::Config;
use crate::domain::account::AuthMode;
use crate::domain::secret::Secret;
use crate::ports::{Clock, Contents, NodeStore};
use crate::store::options::StoreOptions;
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::{ContentDirectory, RedbStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The store's file inside the data directory.
pub const STORE_FILE: &str = "nanoclaw.redb";

/// The directory with the contents of `/v1/files` inside the data directory, or the one that nodes share.
pub const CONTENTS_DIRECTORY: &str = "files";

/// Creates the data directory with access for its owner only.
pub fn provide_data_dir(dir: &Path) -> Result<(), AppError> {
    process::make_private(dir).map_err(|source| AppError::DataDir { path: dir.to_owned(), source })
}

/// Opens the store: the database of `store.url`, or the file in the data directory. Fails if a server has the
/// file open.
pub fn open_store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<dyn NodeStore>, AppError> {
    match &config.store.url {
        Some(url) => Ok(open_database(config, url, clock)?),
        None => Ok(open_store_file(config, clock)?),
    }
}

/// Opens the store file of the data directory.
pub(super) fn open_store_file(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<RedbStore>, AppError> {
    provide_data_dir(&config.data_dir)?;
    let file = config.data_dir.join(STORE_FILE);
    Ok(RedbStore::open(&file, &store_options(config), &config.limits, Arc::clone(clock))?)
}

/// Joins the nodes that share the database.
pub(super) fn open_database(
    config: &Config,
    url: &Secret,
    clock: &Arc<dyn Clock>,
) -> Result<Arc<PostgresStore>, AppError> {
    provide_data_dir(&config.data_dir)?;
    let database = database_options(config, url);
    let store = PostgresStore::open(&database, &store_options(config), &config.limits, Arc::clone(clock))?;
    store.set_scratch_directory(&config.data_dir);
    Ok(store)
}

/// What a delivery may take beside `webhooks.timeout_s`, seconds: to look its host up, and to be recorded.
const DELIVERY_SLACK_S: u64 = 30;

/// How this node reaches the database.
pub fn database_options(config: &Config, url: &Secret) -> PostgresOptions {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    PostgresOptions {
        url: url.clone(),
        node_name: config.store.node_name.clone().unwrap_or_else(host),
        lease: Duration::from_secs(config.store.lease_s),
        is_pooled: config.store.transaction_pooling,
        connections: config.store.connections,
        audit_entries: config.audit.entries(),
        uses_database_time: true,
    }
}

fn store_options(config: &Config) -> StoreOptions {
    StoreOptions {
        retention: config.retention.clone(),
        share: config.worker_share(),
        has_quotas: config.auth_mode != AuthMode::Single,
        exports_spans: config.otlp.endpoint.is_some(),
        delivery_lease_s: config.webhooks.timeout_s.saturating_add(DELIVERY_SLACK_S),
        ..config.store.clone()
    }
}

/// The contents of uploaded files: in the data directory, or in the one that nodes share.
pub(super) fn open_contents(
    config: &Config,
    store: &Arc<dyn NodeStore>,
    shared: Option<&Arc<SharedDir>>,
) -> Arc<dyn Contents> {
    let (path, files) = (config.files_dir().join(CONTENTS_DIRECTORY), Arc::<dyn NodeStore>::clone(store));
    Arc::new(match shared {
        Some(shared) => ContentDirectory::open_shared(&path, files, Arc::<SharedDir>::clone(shared)),
        None => ContentDirectory::open(&path, files),
    })
}
