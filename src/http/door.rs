//! One listener's surroundings: the room, who may knock, and the shutdown. Owns the few things that requests share.

use super::access::Rush;
use super::auth::Auth;
use super::error::Error;
use super::guard::Guard;
use super::health::Readiness;
use super::room::Room;
use super::shutdown::Shutdown;
use crate::http::blocking::blocking;
use crate::ports::{Store, StoreError};
use bytes::Bytes;
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;

/// Calls of tools by operators that run at the same time: each has a thread, for as long as a job has.
pub(crate) const TRIALS: usize = 2;

/// What every request of one listener shares.
pub(crate) struct Door {
    pub(crate) room: Arc<Room>,
    pub(crate) guard: Guard,
    /// How it is found out who asks.
    pub(crate) auth: Auth,
    pub(crate) shutdown: Shutdown,
    /// What the probes said last.
    pub(crate) readiness: Arc<Readiness>,
    /// What is left of `limits.bodies_bytes`.
    pub(crate) bodies: Arc<Semaphore>,
    /// One turn: who has it makes a backup.
    pub(crate) backups: Arc<Semaphore>,
    /// One turn: who has it reads what `/metrics` says.
    pub(crate) scrapes: Arc<Semaphore>,
    /// Calls of tools that may run for operators at the same time.
    pub(crate) trials: Arc<Semaphore>,
    /// How many lines the log has lately got about requests.
    pub(crate) rush: Arc<Rush>,
    /// What `/openapi.json` says, once somebody has asked.
    pub(crate) openapi: OnceLock<Bytes>,
}

impl Door {
    pub(crate) fn new(room: Arc<Room>, guard: Guard, shutdown: Shutdown) -> Self {
        let bodies = Arc::new(Semaphore::new(room.limits.bodies_bytes.min(Semaphore::MAX_PERMITS)));
        let backups = Arc::new(Semaphore::new(1));
        let trials = Arc::new(Semaphore::new(TRIALS));
        let auth = Auth::new(&room);
        let readiness = Arc::new(Readiness::default());
        let (rush, scrapes, openapi) =
            (Arc::new(Rush::default()), Arc::new(Semaphore::new(1)), OnceLock::new());
        Self { room, guard, auth, shutdown, readiness, bodies, backups, scrapes, trials, rush, openapi }
    }

    /// Reads from the store on a thread that may block: for whatever is longer than one row.
    pub(crate) async fn read<T, F>(&self, act: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.room.store);
        Ok(blocking(move || act(&*store)).await??)
    }
}
