//! Brings the courier together with the rooms that it needs. Owns the choice of its secrets: the operator's, else the
//! server's own.

use super::AppError;
use crate::config::Config;
use crate::courier::{Courier, HttpPost, Parts, Pool, Signer, StorePayloads, secret_in};
use crate::domain::address::AddressPolicy;
use crate::engine::Ports;
use crate::store::RedbStore;
use std::sync::Arc;
use std::time::Duration;

/// Where webhooks may go.
pub(super) fn policy(config: &Config) -> Result<AddressPolicy, AppError> {
    AddressPolicy::new(&config.webhooks.allow_private_addresses).map_err(|(_, bad)| AppError::BadRange(bad))
}

/// Starts to deliver, what an earlier process left included.
pub(super) fn start(
    config: &Config,
    ports: &Ports,
    store: &Arc<RedbStore>,
    policy: AddressPolicy,
) -> Result<Pool, AppError> {
    let courier = Courier::new(Parts {
        outbox: Arc::<RedbStore>::clone(store),
        payloads: Arc::new(StorePayloads {
            jobs: Arc::clone(&ports.store),
            batches: Arc::<RedbStore>::clone(store),
        }),
        post: Arc::new(HttpPost::new(policy, Duration::from_secs(config.webhooks.timeout_s))),
        signer: signer(config, ports)?,
        clock: Arc::clone(&ports.clock),
        entropy: Arc::clone(&ports.entropy),
        meter: Arc::clone(&ports.meter),
    });
    Ok(Pool::start(courier, Arc::clone(&ports.clock))?)
}

fn signer(config: &Config, ports: &Ports) -> Result<Signer, AppError> {
    let mut secrets = config.webhooks.secrets.clone();
    if secrets.is_empty() {
        secrets.push(secret_in(&config.data_dir, ports.entropy.as_ref()).map_err(AppError::WebhookSecret)?);
    }
    Signer::new(&secrets).map_err(|(_, bad)| AppError::BadSecret(bad))
}
