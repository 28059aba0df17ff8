//! Opens the audit log. Owns the list of secrets that must stand in none of its lines.

use super::AppError;
use crate::audit::AuditLog;
use crate::config::Config;
use crate::domain::secret::Secret;
use crate::ports::Audit;
use std::sync::Arc;

/// The audit log of this configuration's data directory.
pub(super) fn open(config: &Config) -> Result<Arc<dyn Audit>, AppError> {
    let log = AuditLog::open(&config.data_dir, &config.audit, &secrets(config)).map_err(AppError::Audit)?;
    Ok(Arc::new(log))
}

/// Every secret of the configuration. Those that the server makes for itself are known by what they look like.
fn secrets(config: &Config) -> Vec<Secret> {
    let keys = config.models.iter().filter_map(|model| model.api_key.clone());
    keys.chain(config.webhooks.secrets.iter().cloned()).collect()
}
