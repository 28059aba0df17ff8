//! What `/readyz` asks of the store.

use crate::ports::{Probe, Store, StoreError};
use std::sync::Arc;

/// The store is well when an empty commit comes back from the disk.
pub(super) struct StoreProbe(pub(super) Arc<dyn Store>);

impl Probe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> Result<(), String> {
        match self.0.probe().wait() {
            // A full channel is load, and submissions say so themselves; it is no reason to send every client away.
            Ok(()) | Err(StoreError::Busy) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
