//! How much there is to do: two numbers for whoever watches the server.

use super::RedbStore;
use super::schema::{DELAYED, READY, RUNNING};
use super::table::ReadableTable;
use crate::ports::StoreError;

/// Jobs under way, and jobs that wait for their turn or their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Held by a worker.
    pub running: u64,
    /// Ready, or delayed.
    pub queued: u64,
}

impl RedbStore {
    /// As of the last commit. The tables know their lengths: nothing is walked.
    pub fn load(&self) -> Result<Load, StoreError> {
        self.shared.handle.read(|reading| {
            let waiting = READY.read(reading)?.len()?;
            let delayed = DELAYED.read(reading)?.len()?;
            let running = RUNNING.read(reading)?.len()?;
            Ok(Load { running, queued: waiting.saturating_add(delayed) })
        })
    }
}
