//! One listener's surroundings: the room, who may knock, and the shutdown. Owns the few things that requests share.

use super::auth::AuthState;
use super::blocking::blocking;
use super::dependencies::AppDependencies;
use super::error::ApiError;
use super::middleware::access_log::LogThrottle;
use super::middleware::host_origin::HostOriginGuard;
use super::readiness::ReadinessCache;
use super::server::shutdown::Shutdown;
use crate::ports::{Store, StoreError};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// Calls of tools by operators that run at the same time: each has a thread, for as long as a job has.
pub(crate) const TRIALS: usize = 2;

/// What every request of one listener shares.
pub(crate) struct ServerContext {
    pub(crate) app: Arc<AppDependencies>,
    pub(crate) guard: HostOriginGuard,
    /// How it is found out who asks.
    pub(crate) auth: AuthState,
    pub(crate) shutdown: Shutdown,
    /// What the probes said last.
    pub(crate) readiness: Arc<ReadinessCache>,
    /// What is left of `limits.bodies_bytes`.
    pub(crate) bodies: Arc<Semaphore>,
    /// One turn: who has it makes a backup.
    pub(crate) backups: Arc<Semaphore>,
    /// One turn: who has it reads what `/metrics` says.
    pub(crate) scrapes: Arc<Semaphore>,
    /// Calls of tools that may run for operators at the same time.
    pub(crate) trials: Arc<Semaphore>,
    /// How many lines the log has lately got about requests.
    pub(crate) log_throttle: Arc<LogThrottle>,
    /// What `/openapi.json` says, once somebody has asked.
    pub(crate) openapi: OnceLock<Bytes>,
}

impl ServerContext {
    pub(crate) fn new(app: Arc<AppDependencies>, guard: HostOriginGuard, shutdown: Shutdown) -> Self {
        let bodies = Arc::new(Semaphore::new(app.limits.bodies_bytes.min(Semaphore::MAX_PERMITS)));
        let backups = Arc::new(Semaphore::new(1));
        let trials = Arc::new(Semaphore::new(TRIALS));
        let auth = AuthState::new(&app);
        let readiness = Arc::new(ReadinessCache::default());
        let (log_throttle, scrapes, openapi) =
            (Arc::new(LogThrottle::default()), Arc::new(Semaphore::new(1)), OnceLock::new());
        Self {
            app,
            guard,
            auth,
            shutdown,
            readiness,
            bodies,
            backups,
            scrapes,
            trials,
            log_throttle,
            openapi,
        }
    }

    /// Reads from the store on a thread that may block: for whatever is longer than one row.
    pub(crate) async fn read<T, F>(&self, act: F) -> Result<T, ApiError>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.app.store);
        Ok(blocking(move || act(&*store)).await??)
    }
}
