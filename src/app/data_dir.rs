//! The data directory and the store in it.

use super::error::AppError;
use super::process;
use crate::config::Config;
use crate::domain::account::AuthMode;
use crate::ports::{Clock, Contents};
use crate::store::options::StoreOptions;
use crate::store::{ContentDirectory, RedbStore};
use std::path::Path;
use std::sync::Arc;

/// The store's file inside the data directory.
pub const STORE_FILE: &str = "nanoclaw.redb";

/// The directory with the contents of `/v1/files` inside the data directory.
pub const CONTENTS_DIRECTORY: &str = "files";

/// Creates the data directory with access for its owner only.
pub fn provide_data_dir(dir: &Path) -> Result<(), AppError> {
    process::make_private(dir).map_err(|source| AppError::DataDir { path: dir.to_owned(), source })
}

/// Opens the store of the data directory. Fails if a server has it open.
pub fn open_store(config: &Config, clock: &Arc<dyn Clock>) -> Result<Arc<RedbStore>, AppError> {
    provide_data_dir(&config.data_dir)?;
    let file = config.data_dir.join(STORE_FILE);
    let options = StoreOptions {
        retention: config.retention.clone(),
        share: config.worker_share(),
        has_quotas: config.auth_mode != AuthMode::Single,
        ..config.store.clone()
    };
    Ok(RedbStore::open(&file, &options, &config.limits, Arc::clone(clock))?)
}

/// The contents of uploaded files in the data directory.
pub(super) fn open_contents(config: &Config, store: &Arc<RedbStore>) -> Arc<dyn Contents> {
    let path = config.data_dir.join(CONTENTS_DIRECTORY);
    Arc::new(ContentDirectory::open(&path, Arc::<RedbStore>::clone(store)))
}
