//! One listener's surroundings: the room, who may knock, and the shutdown. Owns the few things that requests share.

use super::error::Error;
use super::guard::Guard;
use super::room::Room;
use super::shutdown::Shutdown;
use crate::ports::{Store, StoreError};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// What every request of one listener shares.
pub(crate) struct Door {
    pub(crate) room: Arc<Room>,
    pub(crate) guard: Guard,
    pub(crate) shutdown: Shutdown,
    /// One `/readyz` asks the probes at a time: they may block, and a hung one must not eat thread after thread.
    pub(crate) probing: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(room: Arc<Room>, guard: Guard, shutdown: Shutdown) -> Self {
        Self { room, guard, shutdown, probing: Arc::new(Semaphore::new(1)) }
    }

    /// Reads from the store on a thread that may block: for whatever is longer than one row.
    pub(crate) async fn read<T, F>(&self, act: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    {
        let store = Arc::clone(&self.room.store);
        let reading = tokio::task::spawn_blocking(move || act(&*store));
        Ok(reading.await.map_err(|_| Error::Internal)??)
    }
}
