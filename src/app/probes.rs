//! What `/readyz` asks of the store.

use crate::ports::{Probe, Store};
use std::sync::Arc;

/// The store is well when an empty commit comes back from the disk.
pub(super) struct StoreProbe(pub(super) Arc<dyn Store>);

impl Probe for StoreProbe {
    fn name(&self) -> &'static str {
        "store"
    }

    fn check(&self) -> Result<(), String> {
        self.0.probe().wait().map_err(|error| error.to_string())
    }
}
