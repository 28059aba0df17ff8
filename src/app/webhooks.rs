//! Starts the delivery of webhooks. They are signed with the operator's secrets, else with one of the
//! server's own.

use super::error::AppError;
use super::secret_files::PendingSecret;
use crate::config::Config;
use crate::domain::address::AddressPolicy;
use crate::domain::secret::Secret;
use crate::engine::EnginePorts;
use crate::ports::NodeStore;
use crate::webhooks::{
    Dispatcher, DispatcherPorts, DispatcherThread, DispatcherThreadError, HttpSender, Signer, StorePayloads,
};
use std::sync::Arc;
use std::time::Duration;

/// The addresses that webhooks may reach.
pub(super) fn policy(config: &Config) -> Result<AddressPolicy, AppError> {
    AddressPolicy::new(&config.webhooks.allow_private_addresses).map_err(|(_, bad)| AppError::BadRange(bad))
}

/// Starts to deliver, including deliveries of an earlier process.
pub(super) fn start(
    config: &Config,
    ports: &EnginePorts,
    store: &Arc<dyn NodeStore>,
    policy: AddressPolicy,
    own_secret: Option<PendingSecret<Secret>>,
) -> Result<DispatcherThread, AppError> {
    let timeout = Duration::from_secs(config.webhooks.timeout_s);
    let sender = HttpSender::new(policy, timeout).map_err(DispatcherThreadError::from)?;
    let dispatcher = Dispatcher::new(DispatcherPorts {
        outbox: Arc::<dyn NodeStore>::clone(store),
        payloads: Arc::new(StorePayloads {
            jobs: Arc::clone(&ports.store),
            batches: Arc::<dyn NodeStore>::clone(store),
        }),
        sender: Arc::new(sender),
        signer: signer(config, own_secret, &**store)?,
        clock: Arc::clone(&ports.clock),
        entropy: Arc::clone(&ports.entropy),
        meter: Arc::clone(&ports.meter),
    });
    Ok(DispatcherThread::start(dispatcher, Arc::clone(&ports.clock))?)
}

fn signer(
    config: &Config,
    own_secret: Option<PendingSecret<Secret>>,
    store: &dyn NodeStore,
) -> Result<Signer, AppError> {
    let mut secrets = config.webhooks.secrets.clone();
    if let Some(secret) = own_secret {
        secrets.push(secret.wait_shared(store).map_err(AppError::WebhookSecret)?);
    }
    Signer::new(&secrets).map_err(|(_, bad)| AppError::BadSecret(bad))
}
